/* SPDX-License-Identifier: Apache-2.0 */
/* A RoCEv2 packet as a whole: its headers, and whether they are consistent. */
#pragma once

#include <stdbool.h>

#include "roce/drops.h"
#include "wire/types.h"
#include "wire/wire.h"

#define PACKET_SPANS 4

/* Opcodes of the reliable connection service (upper three bits 0), and the CNP. */
enum opcode {
	OP_SEND_FIRST = 0x00,
	OP_SEND_MIDDLE = 0x01,
	OP_SEND_LAST = 0x02,
	OP_SEND_LAST_IMMEDIATE = 0x03,
	OP_SEND_ONLY = 0x04,
	OP_SEND_ONLY_IMMEDIATE = 0x05,
	OP_WRITE_FIRST = 0x06,
	OP_WRITE_MIDDLE = 0x07,
	OP_WRITE_LAST = 0x08,
	OP_WRITE_LAST_IMMEDIATE = 0x09,
	OP_WRITE_ONLY = 0x0a,
	OP_WRITE_ONLY_IMMEDIATE = 0x0b,
	OP_READ_REQUEST = 0x0c,
	OP_ACKNOWLEDGE = 0x11,
	OP_COMPARE_SWAP = 0x13,
	OP_FETCH_ADD = 0x14,
	OP_SEND_LAST_INVALIDATE = 0x16,
	OP_SEND_ONLY_INVALIDATE = 0x17,
	OP_CNP = 0x81,
};

/* The meaning of an opcode, and which headers follow the BTH. */
enum part {
	PART_KNOWN = 0x01,
	PART_FIRST = 0x02, /* first or only packet of a message */
	PART_LAST = 0x04,  /* last or only */
	PART_SEND = 0x08,
	PART_WRITE = 0x10,
	PART_RETH = 0x20,
	PART_AETH = 0x40,
	PART_IMMEDIATE = 0x80,
	PART_UNSUPPORTED = 0x100, /* a request that this responder refuses: read, atomic, invalidate */
	PART_CNP = 0x200,
	PART_REQUEST = PART_SEND | PART_WRITE | PART_UNSUPPORTED,
};

struct packet {
	struct ipv4 ip;
	struct bth bth;
	struct reth reth;
	struct aeth aeth;
	u32 immediate;
	u32 parts;
	u32 ip_at;      /* offset of the IPv4 header in the first span */
	u32 payload_at; /* offset of the payload in the first span */
	u32 payload;    /* bytes, without pad and ICRC */
};

/* Returns DROP_COUNT for a valid packet, else the reason to drop the frame. Does not check the ICRC. */
enum drop packet_parse(const struct span *frame, u32 spans, struct packet *packet);

/* Whether the ICRC is correct. Until then no field of the packet may be acted upon. */
bool packet_icrc_holds(const struct span *frame, u32 spans, const struct packet *packet);

/* Copies the payload; packet_parse() has checked that it lies within the frame. */
void packet_copy_payload(const struct span *frame, const struct packet *packet, u8 *to);
