/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's interface to a transport: connections to neighbours that carry writes and messages, in order.
 *
 * A write transfers local memory into a region of the peer, with an immediate of 32 bits. A message is small;
 * its bytes are copied when it is posted. Every function except `wait` is called with the engine's lock held,
 * and only `wait` blocks. A wire calls the core's `core_on_...` (core/core.h) only from `flush` and
 * `progress`; these callbacks may post again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "wire/types.h"

struct core;

/* The key of a region that peers may write into; 0: none. */
typedef u32 wire_key;

struct wire_operations {
	/* False if the wire's queue is full; `progress` frees space in it. */
	bool (*post_write)(void *wire, u32 connection, const void *data, u32 bytes, wire_key key, u64 offset,
			   u32 immediate);
	bool (*post_message)(void *wire, u32 connection, const void *header, u32 header_bytes,
			     const void *payload, u32 payload_bytes);

	wire_key (*register_memory)(void *wire, void *memory, u64 bytes); /* 0 on failure */
	void (*deregister_memory)(void *wire, wire_key key); /* also ends writes into it that have begun */

	/* Sends posted data, as far as the network accepts it. */
	void (*flush)(void *wire, struct core *core, u64 now_ns);

	/* Receives data, continues sending, and reports both to the core. */
	void (*progress)(void *wire, struct core *core, u64 now_ns);

	/* Sleeps until `progress` has work, `kick` is readable, or the timeout expires. No lock is held. */
	void (*wait)(void *wire, int kick, u64 timeout_ns);

	/*
	 * When `progress` and `flush` have work, independent of arrivals: acknowledgements, retransmissions,
	 * data that waits for a rate. NULL: never, because the kernel does that; else some thread always
	 * drives.
	 */
	u64 (*due_ns)(void *wire);

	/*
	 * All calls have failed. Drops the writes not yet started (they are not reported as sent), and does
	 * not access the memory of calls any more: writes of peers are received and discarded.
	 */
	void (*abandon)(void *wire);

	/* Whether all posted data has reached the peers' machines, or their connections are closed. */
	bool (*is_drained)(void *wire);
};
