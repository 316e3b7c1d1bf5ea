/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a connection's waiting messages: each is contiguous, and they are freed in order.
 *
 * RING_CONTROL bytes are reserved for messages without a payload, so that segments never delay them.
 */
#pragma once

#include <stdbool.h>
#include <stdlib.h>

#include "wire/types.h"

#define RING_CONTROL 0x10000

struct ring {
	u8 *memory;
	u32 bytes;      /* a power of two */
	u32 first, end; /* never wrapped */
};

static inline bool ring_open(struct ring *ring, u32 bytes)
{
	*ring = (struct ring){.memory = malloc(bytes), .bytes = bytes};
	return ring->memory;
}

static inline void ring_close(struct ring *ring)
{
	free(ring->memory);
}

/* Memory for a message; NULL if the ring is full. `*taken` are the bytes to free, which may be more. */
static inline u8 *ring_take(struct ring *ring, u32 bytes, bool is_control, u32 *taken)
{
	u32 at = ring->end % ring->bytes, skipped = at + bytes > ring->bytes ? ring->bytes - at : 0;

	*taken = skipped + bytes;
	if (ring->end - ring->first + *taken + (is_control ? 0 : RING_CONTROL) > ring->bytes)
		return NULL;
	ring->end += *taken;
	return ring->memory + (at + skipped) % ring->bytes;
}

static inline void ring_free(struct ring *ring, u32 taken)
{
	ring->first += taken;
}
