/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether frames answer frames, to and fro: waits of late were short, one after the other. Then it is worth
 * a look for the next frame before one sleeps. To look costs the processor as long as it lasts, so it is
 * short, and after one in vain there is none until several waits in a row were short again.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define BUSY_POLL_SOON_NS 50000ULL /* a wait that a frame ends within that time is a short one */
#define BUSY_POLL_WAITS   16

struct busy_poll {
	u32 short_waits; /* in a row */
};

/* A wait is over: by a frame or not, and after so long. */
static inline void busy_poll_note(struct busy_poll *self, bool has_come, u64 took_ns)
{
	if (!has_come || took_ns >= BUSY_POLL_SOON_NS)
		self->short_waits = 0;
	else if (self->short_waits < BUSY_POLL_WAITS)
		self->short_waits++;
}

/* How long to look for the next frame; 0: not at all. */
static inline u64 busy_poll_ns(const struct busy_poll *self)
{
	return self->short_waits == BUSY_POLL_WAITS ? BUSY_POLL_SOON_NS : 0;
}
