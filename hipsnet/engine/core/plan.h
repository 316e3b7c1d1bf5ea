/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's part of a schedule, as arrays that do not change while calls use them (collective/plan.py).
 *
 * A segment may be sent or applied after `waits` other segments are complete; its completion releases the
 * segments in its row of `release`. Segments of one connection and direction are numbered in the order of
 * sending. cffi parses this file: declarations and numeric macros only.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define PLAN_SEGMENTS 0x100000 /* per connection and direction: a number has 20 bits of an immediate */

/*
 * How a received segment is combined with the elements of this rank. The operand of the lower rank is the
 * left one, so that ranks that combine the same vectors get the same bits. The segments of lower ranks are
 * therefore combined with each other first, in the slot of the first one (`root`).
 */
enum plan_fold {
	FOLD_NONE, /* elements = elements + data; or a copy */
	FOLD_ROOT, /* the first of several of lower ranks: the data stays in its slot */
	FOLD_NEXT, /* root = root + data */
	FOLD_LAST, /* root = root + data, elements = root + elements; a root itself if it is the only one */
};

struct plan_segment {
	u64 start;      /* elements of the vector */
	u32 length;     /* elements */
	u32 number;     /* in its connection and direction */
	u16 connection; /* index of the neighbour */
	u16 thread, stage;
	u32 root;     /* index of a segment, of a fold */
	bool sends;   /* this rank sends it; else it receives it */
	bool reduces; /* the receiver combines it; else it overwrites */
	u8 fold;      /* enum plan_fold */
};

/* `first_...` has the start of each row of `release`, `send` or `receive`, and one more element: their
 * length.
 */
struct plan {
	u64 count; /* elements of the vector */
	u32 segments, connections;
	u32 longest; /* elements of the longest segment on any rank: the same on all */
	const struct plan_segment *segment;
	const u32 *waits;
	const u32 *first_release, *release; /* by segment */
	const u32 *first_send, *send;       /* by connection: segments in the order of sending */
	const u32 *first_receive, *receive; /* by connection: segments in the order of arrival */
};
