/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pacer: a token bucket that is kept as the time at which the next frame may go. It has no tick, and
 * divides only when the rate changes.
 *
 * A sender that was held up may catch up by `burst_ns` of frames; over any time t it so sends no more than
 * rate * (t + burst_ns) and one frame.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define PACER_FRACTION_BITS 24
#define BITS_PER_SECOND_MIN 1000 /* slower, and the arithmetic would overflow */

struct pacer {
	u64 next_ns;  /* when the next frame may go */
	u64 fraction; /* of the nanosecond after it */
	u64 byte_ns;  /* what a byte takes, in nanoseconds << PACER_FRACTION_BITS; 0 at no limit */
	u64 burst_ns;
};

/* From the next frame on. A rate of 0 is no limit. */
static inline void pacer_set_rate(struct pacer *pacer, u64 rate_bps)
{
	const u64 byte_ns = 8000000000ULL << PACER_FRACTION_BITS;

	if (rate_bps && rate_bps < BITS_PER_SECOND_MIN)
		rate_bps = BITS_PER_SECOND_MIN;
	pacer->byte_ns = rate_bps ? byte_ns / rate_bps : 0;
}

static inline void pacer_init(struct pacer *pacer, u64 rate_bps, u64 burst_ns)
{
	*pacer = (struct pacer){.burst_ns = burst_ns};
	pacer_set_rate(pacer, rate_bps);
}

static inline bool pacer_may_send(const struct pacer *pacer, u64 now_ns)
{
	return now_ns >= pacer->next_ns;
}

/* Counts a frame that goes now. */
static inline void pacer_sent(struct pacer *pacer, u32 bytes, u64 now_ns)
{
	u64 earliest = now_ns > pacer->burst_ns ? now_ns - pacer->burst_ns : 0;

	if (pacer->next_ns < earliest) {
		pacer->next_ns = earliest;
		pacer->fraction = 0;
	}
	u64 sum = pacer->fraction + bytes * pacer->byte_ns;

	pacer->next_ns += sum >> PACER_FRACTION_BITS;
	pacer->fraction = sum & ((1ULL << PACER_FRACTION_BITS) - 1);
}
