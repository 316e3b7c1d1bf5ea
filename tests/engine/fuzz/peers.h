/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzzer's way into the core of one rank: its input is read as a history of calls, of messages and writes
 * of two peers, and of time. Most messages fit the state of the core, so that the code behind each check is
 * reached; the others are altered or random.
 *
 * The memory of a call is allocated to the byte, and freed when the call has ended, as a program may do: so
 * AddressSanitizer detects each access out of bounds or too late.
 */
#pragma once

#include <stddef.h>

#include "calls.h"
#include "engine/core/core_internal.h"

#define FUZZ_CALLS 72

struct world {
	const u8 *at, *end; /* the input */
	struct core *core;
	void *wire;
	u64 now_ns, seed;
	struct made_call calls[FUZZ_CALLS]; /* by sequence */
	bool is_made[FUZZ_CALLS];
	u32 sent[FUZZ_CALLS][FUZZ_CONNECTIONS]; /* segments that a peer has sent */
	bool is_announced[FUZZ_CALLS][FUZZ_CONNECTIONS];
};

u32 choose(struct world *world, u32 bytes);

/* What each target implements: a wire, and a peer's end of it. */
struct target {
	const struct wire_operations *(*open)(struct world *world); /* sets world->wire */
	void (*close)(struct world *world);
	void (*message)(struct world *world, u32 connection, const u8 *bytes, u32 length);
	void (*write)(struct world *world, u32 connection, wire_key key, u64 offset, u32 bytes,
		      u32 immediate);
	void (*raw)(struct world *world, u32 connection, const u8 *bytes, u32 length);
	void (*hang_up)(struct world *world, u32 connection);
	void (*progress)(struct world *world); /* reads one choice or more, and transfers */
};

extern const struct target target;

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes);
