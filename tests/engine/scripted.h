/* SPDX-License-Identifier: Apache-2.0 */
/* Cores joined by wires in memory, in one thread, with a clock of their own: a test says what happens when.
 */
#pragma once

#include <stdbool.h>

#include "engine/core/core.h"

#define SCRIPTED_RANKS 64

struct world;

struct world *world_create(u32 ranks, u64 seed);
void world_destroy(struct world *world);

/* A rank's core; `links` has the peer's rank, and the peer's number of the connection, of each connection. */
struct core *world_add(struct world *world, u32 rank, const struct core_config *config, const u32 *links);
bool world_start(struct world *world);

/* Delivers one thing that is under way, of any connection: false if nothing is. Then pushes both ends. */
bool world_step(struct world *world);

/* Posts what a rank may send; its submissions do not. */
void world_push(struct world *world, u32 rank);

/* The clock goes on, and every core looks at it. */
void world_pass(struct world *world, u64 ns);
u64 world_now(const struct world *world);

/* What a rank sends on a connection stays under way, as on a dead path. */
void world_cut(struct world *world, u32 rank, u32 connection, bool is_cut);

/* Writes stay behind, and messages overtake them: a sender that stands still and is alive. */
void world_hold_writes(struct world *world, u32 rank, u32 connection);

/* The next write under way there is lost, and counts as sent; false if there is none. */
bool world_drop(struct world *world, u32 rank, u32 connection);

/* A connection ends, for the peer. */
void world_close(struct world *world, u32 rank, u32 connection, const char *why);

/* A message of the test's making instead of a core's. */
void world_inject(struct world *world, u32 rank, u32 connection, const u8 *bytes, u32 length);
void world_inject_write(struct world *world, u32 rank, u32 connection, u32 immediate);

u32 world_regions(const struct world *world, u32 rank); /* registered now */
u32 world_limit(struct world *world, u32 items);        /* a full wire: so many posts wait at most */
