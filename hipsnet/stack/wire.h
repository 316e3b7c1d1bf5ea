/*
 * Every header that the stack reads or writes, in one place.
 *
 * A *view* is what is left of a frame; `*_parse` takes one header off its front into a *value* in host order,
 * and `*_emit` puts a value at the front of a *room*. Both are false, and have touched nothing, if the bytes
 * do not suffice or do not say what the header must say. IEEE 802.3, 802.1Q and 802.1Qbb; RFC 791 and 768;
 * IBTA Architecture Specification volume 1, chapter 9 and annex A17 (RoCEv2).
 */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "types.h"

#define ETHERTYPE_IPV4        0x0800
#define ETHERTYPE_VLAN        0x8100
#define ETHERTYPE_MAC_CONTROL 0x8808
#define MAC_CONTROL_PFC       0x0101
#define PROTOCOL_UDP          17
#define ROCE_PORT             4791
#define DEFAULT_PKEY          0xffff
#define PRIORITIES            8

/* Lengths of the headers. A frame ends with the ICRC; the FCS is the card's. */
enum {
	MAC_BYTES = 6,
	ETHERNET_BYTES = 14,
	VLAN_BYTES = 4,
	IPV4_BYTES = 20,
	UDP_BYTES = 8,
	BTH_BYTES = 12,
	RETH_BYTES = 16,
	AETH_BYTES = 4,
	IMMEDIATE_BYTES = 4,
	CNP_BYTES = 16,
	ICRC_BYTES = 4,
	PFC_BYTES = 46, /* after the Ethernet header, padded to the shortest frame: 60 */
};

/* Where the fields are. */
enum {
	ETHERNET_TO = 0,
	ETHERNET_FROM = 6,
	ETHERNET_TYPE = 12,

	IPV4_VERSION = 0,
	IPV4_TOS = 1,
	IPV4_TOTAL = 2,
	IPV4_ID = 4,
	IPV4_FRAGMENT = 6,
	IPV4_TTL = 8,
	IPV4_PROTOCOL = 9,
	IPV4_CHECKSUM = 10,
	IPV4_FROM = 12,
	IPV4_TO = 16,

	UDP_FROM = 0,
	UDP_TO = 2,
	UDP_LENGTH = 4,
	UDP_CHECKSUM = 6,

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

	PFC_OPCODE = 0,
	PFC_ENABLED = 2,
	PFC_QUANTA = 4,
};

struct view {
	const u8 *at;
	u32 bytes;
};

struct room {
	u8 *at;
	u32 bytes;
};

struct ethernet {
	u8 to[MAC_BYTES], from[MAC_BYTES];
	u16 type;
};

/* What follows an Ethernet header of type 802.1Q. */
struct vlan {
	u8 priority;
	u16 vid, type;
};

/* Explicit congestion notification, RFC 3168. */
enum ecn { ECN_NOT_CAPABLE, ECN_CAPABLE_1, ECN_CAPABLE_0, ECN_CONGESTED };

/* Without options and in one piece: others are refused. The checksum is made and checked here. */
struct ipv4 {
	u32 from, to;
	u16 total, id;
	u8 dscp, ecn, ttl, protocol;
};

/* Checksum 0, as RoCEv2 has it: the ICRC protects the datagram. Another is not looked at. */
struct udp {
	u16 from, to, length;
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

/* A pause frame by priority. Time in quanta of 512 bit times; 0 lets go on. */
struct pfc {
	u8 from[MAC_BYTES];
	u8 enabled; /* one bit for each priority that the frame speaks of */
	u16 quanta[PRIORITIES];
};

static inline u16 get16(const u8 *at)
{
	return (u16)(at[0] << 8 | at[1]);
}

static inline u32 get24(const u8 *at)
{
	return (u32)at[0] << 16 | (u32)at[1] << 8 | at[2];
}

static inline u32 get32(const u8 *at)
{
	return (u32)get16(at) << 16 | get16(at + 2);
}

static inline u64 get64(const u8 *at)
{
	return (u64)get32(at) << 32 | get32(at + 4);
}

static inline void put16(u8 *at, u16 value)
{
	at[0] = (u8)(value >> 8);
	at[1] = (u8)value;
}

static inline void put24(u8 *at, u32 value)
{
	at[0] = (u8)(value >> 16);
	put16(at + 1, (u16)value);
}

static inline void put32(u8 *at, u32 value)
{
	put16(at, (u16)(value >> 16));
	put16(at + 2, (u16)value);
}

static inline void put64(u8 *at, u64 value)
{
	put32(at, (u32)(value >> 32));
	put32(at + 4, (u32)value);
}

/* The next `bytes` of a view, which it then is past; NULL if it has less. */
static inline const u8 *view_take(struct view *view, u32 bytes)
{
	const u8 *at = view->at;

	if (view->bytes < bytes)
		return NULL;
	view->at += bytes;
	view->bytes -= bytes;
	return at;
}

static inline u8 *room_take(struct room *room, u32 bytes)
{
	u8 *at = room->at;

	if (room->bytes < bytes)
		return NULL;
	room->at += bytes;
	room->bytes -= bytes;
	return at;
}

static inline bool ethernet_parse(struct view *view, struct ethernet *value)
{
	const u8 *at = view_take(view, ETHERNET_BYTES);

	if (!at)
		return false;
	memcpy(value->to, at + ETHERNET_TO, MAC_BYTES);
	memcpy(value->from, at + ETHERNET_FROM, MAC_BYTES);
	value->type = get16(at + ETHERNET_TYPE);
	return true;
}

static inline bool ethernet_emit(struct room *room, const struct ethernet *value)
{
	u8 *at = room_take(room, ETHERNET_BYTES);

	if (!at)
		return false;
	memcpy(at + ETHERNET_TO, value->to, MAC_BYTES);
	memcpy(at + ETHERNET_FROM, value->from, MAC_BYTES);
	put16(at + ETHERNET_TYPE, value->type);
	return true;
}

static inline bool vlan_parse(struct view *view, struct vlan *value)
{
	const u8 *at = view_take(view, VLAN_BYTES);

	if (!at)
		return false;
	value->priority = at[0] >> 5;
	value->vid = get16(at) & 0x0fff;
	value->type = get16(at + 2);
	return true;
}

static inline bool vlan_emit(struct room *room, const struct vlan *value)
{
	u8 *at = room_take(room, VLAN_BYTES);

	if (!at)
		return false;
	put16(at, (u16)(value->priority << 13 | (value->vid & 0x0fff)));
	put16(at + 2, value->type);
	return true;
}

/* Of an IPv4 header without options; 0 over one that is right. RFC 1071. */
static inline u16 ipv4_checksum(const u8 *at)
{
	u32 sum = 0;

	for (u32 i = 0; i < IPV4_BYTES; i += 2)
		sum += get16(at + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}

static inline bool ipv4_parse(struct view *view, struct ipv4 *value)
{
	enum { VERSION_4_WITHOUT_OPTIONS = 0x45, MORE_OR_OFFSET = 0x3fff };
	const u8 *at = view->at;

	if (view->bytes < IPV4_BYTES || at[IPV4_VERSION] != VERSION_4_WITHOUT_OPTIONS ||
	    get16(at + IPV4_FRAGMENT) & MORE_OR_OFFSET || get16(at + IPV4_TOTAL) < IPV4_BYTES ||
	    ipv4_checksum(at))
		return false;
	view_take(view, IPV4_BYTES);
	value->dscp = at[IPV4_TOS] >> 2;
	value->ecn = at[IPV4_TOS] & 3;
	value->total = get16(at + IPV4_TOTAL);
	value->id = get16(at + IPV4_ID);
	value->ttl = at[IPV4_TTL];
	value->protocol = at[IPV4_PROTOCOL];
	value->from = get32(at + IPV4_FROM);
	value->to = get32(at + IPV4_TO);
	return true;
}

static inline bool ipv4_emit(struct room *room, const struct ipv4 *value)
{
	enum { DONT_FRAGMENT = 0x4000 };
	u8 *at = room_take(room, IPV4_BYTES);

	if (!at)
		return false;
	at[IPV4_VERSION] = 0x45;
	at[IPV4_TOS] = (u8)(value->dscp << 2 | (value->ecn & 3));
	put16(at + IPV4_TOTAL, value->total);
	put16(at + IPV4_ID, value->id);
	put16(at + IPV4_FRAGMENT, DONT_FRAGMENT);
	at[IPV4_TTL] = value->ttl;
	at[IPV4_PROTOCOL] = value->protocol;
	put16(at + IPV4_CHECKSUM, 0);
	put32(at + IPV4_FROM, value->from);
	put32(at + IPV4_TO, value->to);
	put16(at + IPV4_CHECKSUM, ipv4_checksum(at));
	return true;
}

static inline bool udp_parse(struct view *view, struct udp *value)
{
	const u8 *at = view->at;

	if (view->bytes < UDP_BYTES || get16(at + UDP_LENGTH) < UDP_BYTES)
		return false;
	view_take(view, UDP_BYTES);
	value->from = get16(at + UDP_FROM);
	value->to = get16(at + UDP_TO);
	value->length = get16(at + UDP_LENGTH);
	return true;
}

static inline bool udp_emit(struct room *room, const struct udp *value)
{
	u8 *at = room_take(room, UDP_BYTES);

	if (!at)
		return false;
	put16(at + UDP_FROM, value->from);
	put16(at + UDP_TO, value->to);
	put16(at + UDP_LENGTH, value->length);
	put16(at + UDP_CHECKSUM, 0);
	return true;
}

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

static const u8 PFC_ADDRESS[MAC_BYTES] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01};

/* A whole frame, its Ethernet header included. */
static inline bool pfc_parse(const struct view *frame, struct pfc *value)
{
	const u8 *at = frame->at + ETHERNET_BYTES;

	if (frame->bytes < ETHERNET_BYTES + PFC_QUANTA + 2 * PRIORITIES ||
	    memcmp(frame->at + ETHERNET_TO, PFC_ADDRESS, MAC_BYTES) ||
	    get16(frame->at + ETHERNET_TYPE) != ETHERTYPE_MAC_CONTROL ||
	    get16(at + PFC_OPCODE) != MAC_CONTROL_PFC)
		return false;
	memcpy(value->from, frame->at + ETHERNET_FROM, MAC_BYTES);
	value->enabled = at[PFC_ENABLED + 1]; /* the vector's upper byte is reserved */
	for (u32 i = 0; i < PRIORITIES; i++)
		value->quanta[i] = get16(at + PFC_QUANTA + 2 * i);
	return true;
}

/* A whole frame, of ETHERNET_BYTES + PFC_BYTES. */
static inline bool pfc_emit(struct room *room, const struct pfc *value)
{
	u8 *frame = room_take(room, ETHERNET_BYTES + PFC_BYTES);

	if (!frame)
		return false;
	u8 *at = frame + ETHERNET_BYTES;

	memcpy(frame + ETHERNET_TO, PFC_ADDRESS, MAC_BYTES);
	memcpy(frame + ETHERNET_FROM, value->from, MAC_BYTES);
	put16(frame + ETHERNET_TYPE, ETHERTYPE_MAC_CONTROL);
	memset(at, 0, PFC_BYTES);
	put16(at + PFC_OPCODE, MAC_CONTROL_PFC);
	put16(at + PFC_ENABLED, value->enabled);
	for (u32 i = 0; i < PRIORITIES; i++)
		put16(at + PFC_QUANTA + 2 * i, value->quanta[i]);
	return true;
}
