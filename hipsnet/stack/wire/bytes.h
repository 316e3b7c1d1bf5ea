/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in network order; a view is the part of a frame still to be read, a room the space still to be
 * written. */
#pragma once

#include <stddef.h>

#include "wire/types.h"

struct view {
	const u8 *at;
	u32 bytes;
};

struct room {
	u8 *at;
	u32 bytes;
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

/* Advances a view by `bytes` and returns their start; NULL if fewer are left. */
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
