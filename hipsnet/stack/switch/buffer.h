/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The accounts of a switch's packet buffer: how much of it each priority of each port holds, who may have
 * more, and when a sender has to stop. Numbers only, no frames.
 *
 * Every byte is held for an ingress group, the (port, priority) that it came in by, and in an egress queue,
 * the (port, priority) that it will leave by. A group fills three parts in this order, and empties them in
 * the other:
 *
 *	reserved	its own, always to be had
 *	shared		out of the pool that all groups share, up to the group's limit
 *	headroom	its own, of a lossless priority: what still comes after the sender was told to stop
 *
 * The limit of a group in the pool is `xoff` (static), or `alpha` times what is free in the pool (dynamic:
 * who comes to a full pool gets less, and something is left for the next). What goes beyond it goes to the
 * headroom, and the group asks to be stopped. It asks to go on when the headroom is empty and the group has
 * shrunk to `xon`, or by `hysteresis` below its dynamic limit.
 *
 * A lossy priority is limited where it leaves: a queue may hold its own `reserved` and alpha times what is
 * free. What comes beyond it is lost (tail drop).
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
	u64 xoff; /* how long a group may get: static; 0: dynamic, by alpha */
	u64 xon;  /* 0: by `hysteresis` */
	double alpha;
	u64 hysteresis;
};

struct priority_group {
	u64 reserved, shared, headroom;
	u64 most, most_headroom;
	bool stopped; /* asks to be */
};

struct buffer_queue {
	u64 bytes, most;
};

struct buffer {
	struct buffer_class classes[PRIORITIES];
	u64 shared_size;
	u64 memory; /* bytes that the memory behind it can take beyond what it owes to reserves and headrooms
		     */
	u64 shared, most_shared;
	u64 headroom, most_headroom;
	struct priority_group groups[SWITCH_PORTS][PRIORITIES];
	struct buffer_queue queues[SWITCH_PORTS][PRIORITIES];
};

enum buffer_verdict {
	BUFFER_TAKEN,
	BUFFER_LATE,    /* taken, beyond its headroom */
	BUFFER_TAIL,    /* lossy, its queue has its share */
	BUFFER_FULL,    /* lossy, the pool is empty */
	BUFFER_OVERRUN, /* lossless, beyond its headroom */
};

struct buffer_place {
	u8 ingress, egress, priority;
};

/*
 * Puts a frame to the accounts, or says why not. The group's `stopped` tells whether its sender may go on.
 * With `has_place` there is room for the frame elsewhere when its headroom is full.
 */
enum buffer_verdict buffer_charge(struct buffer *buffer, struct buffer_place place, u32 bytes,
				  bool has_place);

/* Takes a frame that was charged from the accounts. */
void buffer_discharge(struct buffer *buffer, struct buffer_place place, u32 bytes);

/* Lets a group go on if it may; true if it may now. What leaves elsewhere can make it so, too. */
bool buffer_may_go(struct buffer *buffer, u32 ingress, u32 priority);

/* What a group may hold in the pool now. */
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
