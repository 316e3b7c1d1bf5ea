/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that peers may write to: regions with keys.
 *
 * A key consists of the region's index in the table and 16 bits that differ for every registration, so that
 * deregistered and guessed keys are refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "wire/types.h"

struct region {
	u8 *base;
	u64 bytes;
	u64 address; /* the address by which peers refer to the first byte */
	u32 key;     /* 0 if the entry is free */
};

struct regions {
	struct region *table;
	u32 mask; /* places - 1 */
	bool discards;
	u64 random;
};

/* xorshift64: differs from run to run by its seed; predictable for those who see many keys. */
static inline u64 next_random(u64 *state)
{
	u64 value = *state ? *state : 0x9e3779b97f4a7c15ULL;

	value ^= value << 13;
	value ^= value >> 7;
	value ^= value << 17;
	return *state = value;
}

static inline u32 regions_add(struct regions *regions, u8 *base, u64 bytes, u64 address)
{
	if (address + bytes < address)
		return 0;
	for (u32 place = 0; place <= regions->mask; place++) {
		struct region *region = &regions->table[place];

		if (region->key)
			continue;
		u32 tag = (u32)(next_random(&regions->random) >> 32) & 0xffff;

		*region = (struct region){
			.base = base,
			.bytes = bytes,
			.address = address,
			.key = place << 16 | (tag ? tag : 1),
		};
		return region->key;
	}
	return 0;
}

static inline bool regions_remove(struct regions *regions, u32 key)
{
	struct region *region = &regions->table[key >> 16 & regions->mask];

	if (!key || region->key != key)
		return false;
	*region = (struct region){0};
	return true;
}

/* The local address of `bytes` at `address` of a region; NULL for a wrong key or a range out of bounds. */
static inline u8 *regions_find(const struct regions *regions, u32 key, u64 address, u64 bytes)
{
	const struct region *region = &regions->table[key >> 16 & regions->mask];

	if (!key || region->key != key || address < region->address)
		return NULL;
	u64 offset = address - region->address;

	if (offset > region->bytes || bytes > region->bytes - offset)
		return NULL;
	return region->base + offset;
}
