/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects that no rank makes progress, and which rank is furthest behind, from local work and heartbeats.
 *
 * Each heartbeat carries the age of the last progress that its sender has made or received. So the progress
 * of a distant rank prevents a timeout on all ranks that wait for it, directly or indirectly. In a stall, the
 * ages grow at the same rate on all ranks, and the position furthest behind reaches all of them before the
 * timeout expires: all ranks report the same culprit.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define STEP_DONE 0x1ffff

/* The position of a rank: its oldest call under way, and the first unfinished step of that call. Each stage
 * has two steps: segments that are ready to send (even), and segments that wait (odd).
 */
struct position {
	u32 sequence, step, rank;
};

struct stall {
	u64 tolerance_ns; /* ages that differ by less, a heartbeat's delay, refer to the same progress */
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

/* This rank has made progress: forgets the reports of other ranks. */
static inline void stall_progressed(struct stall *self, u64 now_ns)
{
	self->since_ns = now_ns;
	self->has_heard = false;
}

/* The position furthest behind among `mine`, of this rank, and the reported ones. */
static inline struct position stall_behind(const struct stall *self, struct position mine)
{
	return self->has_heard && is_behind(&self->behind, &mine) ? self->behind : mine;
}

static inline u64 stall_age_ns(const struct stall *self, u64 now_ns)
{
	return now_ns > self->since_ns ? now_ns - self->since_ns : 0;
}

/* Processes a heartbeat that reports progress `age_ns` ago. */
static inline void stall_heard(struct stall *self, u64 now_ns, u64 age_ns, struct position behind,
			       struct position mine)
{
	u64 at_ns = now_ns > age_ns ? now_ns - age_ns : 0;

	if (behind.rank == mine.rank && is_behind(&behind, &mine)) {
		/* The report contains an old position of this rank: supersede it with a new age. */
		stall_progressed(self, now_ns);
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
