/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the core knows of a transport: connections to neighbours that carry writes and messages, in order.
 *
 * A write goes from memory here into a region of the peer, and carries 32 bits with it. A message is small;
 * its bytes are copied when it is posted. Every function but `wait` is called with the engine's lock held,
 * and only `wait` blocks. A wire calls the core's `core_on_...` (core/core.h) from `flush` and `progress`
 * alone, and those may post again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "wire/types.h"

struct core;

/* Of memory that peers may write into: what they name it by. 0 is none. */
typedef u32 wire_key;

struct wire_operations {
	/* False if the wire has no room for it now; then `progress` makes some. */
	bool (*post_write)(void *wire, u32 connection, const void *data, u32 bytes, wire_key key, u64 offset,
			   u32 immediate);
	bool (*post_message)(void *wire, u32 connection, const void *header, u32 header_bytes,
			     const void *payload, u32 payload_bytes);

	wire_key (*register_memory)(void *wire, void *memory, u64 bytes); /* 0 if it cannot be */
	void (*deregister_memory)(void *wire, wire_key key);

	/* Sends what was posted, as far as the network takes it. */
	void (*flush)(void *wire, struct core *core, u64 now_ns);

	/* Takes what has come, sends what the network has room for again, and reports both to the core. */
	void (*progress)(void *wire, struct core *core, u64 now_ns);

	/* Sleeps until `progress` has something to do, `kick` is readable, or the time is over. No lock is
	 * held. */
	void (*wait)(void *wire, int kick, u64 timeout_ns);

	/* Drops the writes that have not begun to leave: none of them is reported as sent. */
	void (*abandon)(void *wire);

	/* Whether all that was posted has reached the peers' machines, or their connections are gone. */
	bool (*is_drained)(void *wire);

	u32 message_max; /* bytes of a message with its header */
};
