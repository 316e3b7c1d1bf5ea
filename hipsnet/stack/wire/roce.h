/* SPDX-License-Identifier: Apache-2.0 */
/* InfiniBand transport headers as RoCEv2 carries them; see wire/wire.h. IBTA volume 1, chapter 9. */
#pragma once

#include <stdbool.h>

#include "wire/bytes.h"

#define ROCE_PORT    4791
#define DEFAULT_PKEY 0xffff

/* A frame ends with the ICRC; the FCS is the card's. */
enum {
	BTH_BYTES = 12,
	RETH_BYTES = 16,
	AETH_BYTES = 4,
	IMMEDIATE_BYTES = 4,
	CNP_BYTES = 16, /* reserved bytes, the whole payload of a CNP */
	ICRC_BYTES = 4,
};

/* Where the fields are. */
enum {
	BTH_OPCODE = 0,
	BTH_FLAGS = 1, /* solicited event 80, migration 40, pad count 30, version 0f */
	BTH_PKEY = 2,
	BTH_CONGESTION = 4, /* FECN 80, BECN 40 */
	BTH_QPN = 5,
	BTH_ACK_REQUEST = 8,
	BTH_PSN = 9,

	RETH_ADDRESS = 0,
	RETH_KEY = 8,
	RETH_LENGTH = 12,

	AETH_SYNDROME = 0,
	AETH_MSN = 1,
};

/* Base transport header. */
struct bth {
	u32 qpn, psn;
	u16 pkey;
	u8 opcode, pad;
	bool solicited, ack_request, fecn, becn;
};

/* RDMA extended transport header. */
struct reth {
	u64 address;
	u32 key, length;
};

/* Acknowledge extended transport header. */
struct aeth {
	u8 syndrome;
	u32 msn;
};

static inline bool bth_parse(struct view *view, struct bth *value)
{
	const u8 *at = view->at;

	if (view->bytes < BTH_BYTES || at[BTH_FLAGS] & 0x0f)
		return false;
	view_take(view, BTH_BYTES);
	value->opcode = at[BTH_OPCODE];
	value->solicited = at[BTH_FLAGS] & 0x80;
	value->pad = at[BTH_FLAGS] >> 4 & 3;
	value->pkey = get16(at + BTH_PKEY);
	value->fecn = at[BTH_CONGESTION] & 0x80;
	value->becn = at[BTH_CONGESTION] & 0x40;
	value->qpn = get24(at + BTH_QPN);
	value->ack_request = at[BTH_ACK_REQUEST] & 0x80;
	value->psn = get24(at + BTH_PSN);
	return true;
}

static inline bool bth_emit(struct room *room, const struct bth *value)
{
	u8 *at = room_take(room, BTH_BYTES);

	if (!at)
		return false;
	at[BTH_OPCODE] = value->opcode;
	/* Migrated: the state that a pair without automatic path migration is in. */
	at[BTH_FLAGS] = (u8)((value->solicited ? 0x80 : 0) | 0x40 | (value->pad & 3) << 4);
	put16(at + BTH_PKEY, value->pkey);
	at[BTH_CONGESTION] = (u8)((value->fecn ? 0x80 : 0) | (value->becn ? 0x40 : 0));
	put24(at + BTH_QPN, value->qpn);
	at[BTH_ACK_REQUEST] = value->ack_request ? 0x80 : 0;
	put24(at + BTH_PSN, value->psn);
	return true;
}

static inline bool reth_parse(struct view *view, struct reth *value)
{
	const u8 *at = view_take(view, RETH_BYTES);

	if (!at)
		return false;
	value->address = get64(at + RETH_ADDRESS);
	value->key = get32(at + RETH_KEY);
	value->length = get32(at + RETH_LENGTH);
	return true;
}

static inline bool reth_emit(struct room *room, const struct reth *value)
{
	u8 *at = room_take(room, RETH_BYTES);

	if (!at)
		return false;
	put64(at + RETH_ADDRESS, value->address);
	put32(at + RETH_KEY, value->key);
	put32(at + RETH_LENGTH, value->length);
	return true;
}

static inline bool aeth_parse(struct view *view, struct aeth *value)
{
	const u8 *at = view_take(view, AETH_BYTES);

	if (!at)
		return false;
	value->syndrome = at[AETH_SYNDROME];
	value->msn = get24(at + AETH_MSN);
	return true;
}

static inline bool aeth_emit(struct room *room, const struct aeth *value)
{
	u8 *at = room_take(room, AETH_BYTES);

	if (!at)
		return false;
	at[AETH_SYNDROME] = value->syndrome;
	put24(at + AETH_MSN, value->msn);
	return true;
}

static inline bool immediate_parse(struct view *view, u32 *value)
{
	const u8 *at = view_take(view, IMMEDIATE_BYTES);

	if (at)
		*value = get32(at);
	return at;
}

static inline bool immediate_emit(struct room *room, u32 value)
{
	u8 *at = room_take(room, IMMEDIATE_BYTES);

	if (at)
		put32(at, value);
	return at;
}
