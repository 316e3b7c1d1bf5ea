/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to poll the rings for a moment before sleeping: while the last waits were all short, as in a ping-pong
 * of short messages, the next frame arrives sooner than a sleep and a wake-up take. Polling occupies the
 * processor, so it is short, and stops after one failure until several waits in a row were short again.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define BUSY_POLL_SOON_NS 50000ULL /* a wait that a frame ends within this time is short */
#define BUSY_POLL_WAITS   16

struct busy_poll {
	u32 short_waits; /* in a row */
};

/* A wait has ended, by a frame or not, after `took_ns`. */
static inline void busy_poll_note(struct busy_poll *self, bool has_come, u64 took_ns)
{
	if (!has_come || took_ns >= BUSY_POLL_SOON_NS)
		self->short_waits = 0;
	else if (self->short_waits < BUSY_POLL_WAITS)
		self->short_waits++;
}

/* How long to poll before the next sleep; 0: not at all. */
static inline u64 busy_poll_ns(const struct busy_poll *self)
{
	return self->short_waits == BUSY_POLL_WAITS ? BUSY_POLL_SOON_NS : 0;
}
