/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket, stored as the time at which the next frame may be sent. There is no tick, and a division
 * only when the rate changes.
 *
 * A delayed sender may catch up by `burst_ns` of frames: in any interval t it sends at most
 * rate * (t + burst_ns) and one frame.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define PACER_FRACTION_BITS 24
#define BITS_PER_SECOND_MIN 1000 /* the arithmetic overflows below */

struct pacer {
	u64 next_ns;  /* when the next frame may be sent */
	u64 fraction; /* of a nanosecond, to be added to next_ns */
	u64 byte_ns;  /* time of a byte, in nanoseconds << PACER_FRACTION_BITS; 0: no limit */
	u64 burst_ns;
};

/* Takes effect with the next frame. A rate of 0 is no limit. */
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

/* Accounts for a frame that is sent now. */
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
