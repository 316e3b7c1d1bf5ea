/* SPDX-License-Identifier: Apache-2.0 */
/* PFC frames; see wire/wire.h. IEEE 802.1Qbb, 802.3 annex 31D. */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "wire/bytes.h"
#include "wire/ip.h"

#define MAC_CONTROL_PFC 0x0101
#define PRIORITIES      8

enum {
	PFC_BYTES = 46, /* after the Ethernet header, padded to the shortest frame: 60 */

	PFC_OPCODE = 0,
	PFC_ENABLED = 2,
	PFC_QUANTA = 4,
};

/* A PFC frame. Pause times are in quanta of 512 bit times; 0 ends a pause (XON). */
struct pfc {
	u8 from[MAC_BYTES];
	u8 enabled; /* a bit for each priority whose quanta are valid */
	u16 quanta[PRIORITIES];
};

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
