/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of scripted.h for cores over XDP wires. Their pairs are joined by a link in memory that may
 * lose, repeat and reorder frames; the clock advances when no frame is under way.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

struct world;

/* Each of a million frames, on average. */
void world_faults(struct world *world, u32 lost, u32 repeated, u32 delayed);

/* A rank's pair writes to its peer, or sends to it, what no core would. */
bool world_write(struct world *world, u32 rank, u32 connection, const u8 *data, u32 bytes, u32 key,
		 u64 offset);
bool world_send(struct world *world, u32 rank, u32 connection, const u8 *data, u32 bytes);

/* The key of an array of `bytes` that a rank has registered and taken back again. */
u32 world_old_key(struct world *world, u32 rank, u8 *memory, u32 bytes);

/* The key of a connection's staging slots. */
u32 world_staging_key(struct world *world, u32 rank, u32 connection);

/* Drops all frames under way. */
void world_clear(struct world *world);

/* The wire of a rank is closed, as by a process that ends: with a farewell, or without. */
void world_leave(struct world *world, u32 rank, bool says_so);

bool world_is_drained(struct world *world, u32 rank);
void world_abandon(struct world *world, u32 rank);
u64 world_rnr_naks(const struct world *world);
