/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long no rank has made progress, and which rank is furthest behind: from this rank's work and
 * heartbeats.
 *
 * Each heartbeat carries the age of the last progress that its sender has made or heard of. So the progress
 * of a distant rank keeps all ranks that wait for it, directly or not, from giving up. When nothing moves any
 * more, the ages grow alike on all ranks, and the position furthest behind has travelled to all of them by
 * the time that they give up: all name the same culprit.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define STEP_DONE 0x1ffff

/* Of a rank: its oldest call that is under way, and the first step there that is left: in each
 * stage what could be sent at once (even numbers), then what waits for others (odd ones).
 */
struct position {
	u32 sequence, step, rank;
};

struct stall {
	u64 tolerance_ns; /* ages that differ by less, a heartbeat's delay, are of the same progress */
	u64 since_ns;
	bool has_heard;
	struct position behind;
};

static inline bool is_behind(const struct position *a, const struct position *b)
{
	if (a->sequence != b->sequence)
		return (int)(a->sequence - b->sequence) < 0;
	return a->step != b->step ? a->step < b->step : a->rank < b->rank;
}

/* This rank has made progress: what it knew of others is of the past. */
static inline void stall_progressed(struct stall *self, u64 now_ns)
{
	self->since_ns = now_ns;
	self->has_heard = false;
}

/* The position furthest behind, of this rank, which is at `mine`, and of all that it has heard of. */
static inline struct position stall_behind(const struct stall *self, struct position mine)
{
	return self->has_heard && is_behind(&self->behind, &mine) ? self->behind : mine;
}

static inline u64 stall_age_ns(const struct stall *self, u64 now_ns)
{
	return now_ns > self->since_ns ? now_ns - self->since_ns : 0;
}

/* A heartbeat has come from a rank that knows of progress `age_ns` ago. */
static inline void stall_heard(struct stall *self, u64 now_ns, u64 age_ns, struct position behind,
			       struct position mine)
{
	u64 at_ns = now_ns > age_ns ? now_ns - age_ns : 0;

	if (behind.rank == mine.rank && is_behind(&behind, &mine)) {
		stall_progressed(self,
				 now_ns); /* an old position of ours is under way: a new age overtakes it */
	} else if (at_ns > self->since_ns + self->tolerance_ns) {
		self->since_ns = at_ns;
		self->behind = behind;
		self->has_heard = true;
	} else if (at_ns + self->tolerance_ns >= self->since_ns) {
		if (at_ns > self->since_ns)
			self->since_ns = at_ns;
		if (!self->has_heard || is_behind(&behind, &self->behind))
			self->behind = behind;
		self->has_heard = true;
	}
}
