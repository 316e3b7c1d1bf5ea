/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission control of a switch's packet buffer: how much each priority of each port holds, how much more it
 * may have, and when its sender has to be paused. Numbers only, no frames.
 *
 * Every byte is charged to a priority group, the (port, priority) by which it arrived, and to an egress
 * queue, the (port, priority) by which it will leave. A priority group fills three parts in this order, and
 * empties them in reverse:
 *
 *	reserved	guaranteed to the group
 *	shared		from the pool of all groups, up to the group's limit
 *	headroom	of lossless priorities: for what still arrives after XOFF
 *
 * The limit of a group in the pool is `xoff` (static), or `alpha` times the free part of the pool (dynamic:
 * the fuller the pool, the lower the limits, so that some of it always remains free). Beyond the limit a
 * frame goes to the headroom, and the group's sender is to be paused. It may resume when the headroom is
 * empty and the group holds at most `xon`, or is `hysteresis` below its dynamic limit.
 *
 * A lossy priority is limited at the egress: a queue may hold its own `reserved` and alpha times the free
 * part of the pool. Frames beyond that are dropped (tail drop).
 */
#pragma once

#include <stdbool.h>

#include "wire/pfc.h"
#include "wire/types.h"

#define SWITCH_PORTS 64

/* The thresholds of a priority, the same at every port, in bytes. */
struct buffer_class {
	bool lossless;
	u64 reserved;
	u64 headroom;
	u64 xoff; /* static limit of a group; 0: dynamic, by alpha */
	u64 xon;  /* 0: by `hysteresis` */
	double alpha;
	u64 hysteresis;
};

struct priority_group {
	u64 reserved, shared, headroom;
	u64 most, most_headroom;
	bool stopped; /* its sender is to be paused */
};

struct buffer_queue {
	u64 bytes, most;
};

struct buffer {
	struct buffer_class classes[PRIORITIES];
	u64 shared_size;
	u64 memory; /* free bytes of the memory beyond those kept for reserves and headrooms */
	u64 shared, most_shared;
	u64 headroom, most_headroom;
	struct priority_group groups[SWITCH_PORTS][PRIORITIES];
	struct buffer_queue queues[SWITCH_PORTS][PRIORITIES];
};

enum buffer_verdict {
	BUFFER_TAKEN,
	BUFFER_LATE,    /* taken, beyond the headroom */
	BUFFER_TAIL,    /* dropped: lossy, the queue is at its limit */
	BUFFER_FULL,    /* dropped: lossy, the pool is used up */
	BUFFER_OVERRUN, /* dropped: lossless, beyond the headroom */
};

struct buffer_place {
	u8 ingress, egress, priority;
};

/*
 * Charges a frame, or returns why not. Afterwards the group's `stopped` is valid. With `has_place` the frame
 * may exceed the headroom (BUFFER_LATE): it keeps the chunk that it was received into.
 */
enum buffer_verdict buffer_charge(struct buffer *buffer, struct buffer_place place, u32 bytes,
				  bool has_place);

/* Reverses the charge of a frame. */
void buffer_discharge(struct buffer *buffer, struct buffer_place place, u32 bytes);

/* Whether the sender of a group may send now; updates `stopped`. Frames that leave other groups change it,
 * too. */
bool buffer_may_go(struct buffer *buffer, u32 ingress, u32 priority);

/* The current limit of a group in the pool. */
u64 buffer_limit(const struct buffer *buffer, u32 priority);

static inline u64 buffer_free(const struct buffer *buffer)
{
	u64 left = buffer->shared_size - buffer->shared;

	return left < buffer->memory ? left : buffer->memory;
}

static inline u64 buffer_held(const struct priority_group *group)
{
	return group->reserved + group->shared + group->headroom;
}
