/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariant CRC at the end of every RoCEv2 packet: IBTA volume 1, section 7.8.1, and annex A17.3.3.
 *
 * CRC-32 of IEEE 802.3 over eight bytes of ones (in place of the LRH, which RoCEv2 does not have), the IPv4,
 * UDP and transport headers with ones in the fields that routers may change, the payload, and the pad. The
 * functions continue from an earlier result, so that a packet may lie in several buffers.
 */
#pragma once

#include <string.h>

#include "wire/bytes.h"
#include "wire/ip.h"
#include "wire/roce.h"

#define ICRC_HEADERS_MAX 96

/* Continues over `bytes` at `data`, with the fastest method that this processor supports. */
u32 icrc_add(u32 icrc, const void *data, u32 bytes);

/* The same, and copies the bytes to `to` in the same pass. */
u32 icrc_copy(u32 icrc, void *to, const void *data, u32 bytes);

/* icrc_add() as on a processor without carry-less multiplication: by tables. */
u32 icrc_add_by_table(u32 icrc, const void *data, u32 bytes);

/* Begins a sum with the headers, from IPv4 to the last transport header: at most ICRC_HEADERS_MAX bytes. */
static inline u32 icrc_headers(const u8 *ipv4, u32 bytes)
{
	enum { ONES = 8, UDP_AT = ONES + IPV4_BYTES, BTH_AT = UDP_AT + UDP_BYTES };
	u8 masked[ONES + ICRC_HEADERS_MAX];

	memset(masked, 0xff, ONES);
	memcpy(masked + ONES, ipv4, bytes);
	masked[ONES + IPV4_TOS] = 0xff;
	masked[ONES + IPV4_TTL] = 0xff;
	memset(masked + ONES + IPV4_CHECKSUM, 0xff, 2);
	memset(masked + UDP_AT + UDP_CHECKSUM, 0xff, 2);
	masked[BTH_AT + BTH_CONGESTION] = 0xff;
	return icrc_add(0, masked, ONES + bytes);
}

/* In the frame the ICRC is little endian, unlike all other fields. */
static inline void icrc_emit(u8 *at, u32 icrc)
{
	for (int i = 0; i < ICRC_BYTES; i++)
		at[i] = (u8)(icrc >> 8 * i);
}

static inline u32 icrc_parse(const u8 *at)
{
	return (u32)at[0] | (u32)at[1] << 8 | (u32)at[2] << 16 | (u32)at[3] << 24;
}
