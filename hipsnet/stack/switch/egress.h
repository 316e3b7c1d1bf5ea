/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress queues of a port, one for each priority, served at the cable's rate: the highest priority first
 * (strict), or by weight (deficit round robin, Shreedhar and Varghese, SIGCOMM 1995).
 */
#pragma once

#include <stdbool.h>

#include "cable/pacer.h"
#include "wire/pfc.h"
#include "wire/types.h"

/* A frame in the buffer. The caller's own data of the frame follows. */
struct packet {
	struct packet *next;
	u32 bytes;
	u8 ingress, priority;
	u8 late_chunks; /* chunks that it holds of its ingress port's ring: BUFFER_LATE */
};

struct queue {
	struct packet *first, *last;
};

struct egress {
	struct pacer pacer;
	struct queue queues[PRIORITIES];
	u64 deficits[PRIORITIES];
	u32 quanta[PRIORITIES]; /* bytes per turn: weight * longest frame; all 0: strict */
	u8 waiting;             /* a bit for each queue that is not empty */
	u8 turn;
};

/* `rate_bps` 0 is no limit; `weights` of 0 are strict. */
void egress_init(struct egress *egress, u64 rate_bps, u64 burst_ns, const u32 *weights, u32 longest_frame);

void egress_put(struct egress *egress, struct packet *packet);

/* The next packet of the priorities in `open`; NULL if none waits or the cable is busy. */
struct packet *egress_take(struct egress *egress, u8 open, u64 now);

/* Removes any packet of these priorities, regardless of the rate; NULL if none waits. */
struct packet *egress_drop(struct egress *egress, u8 priorities);

/* When the cable is free for the next packet. */
static inline u64 egress_free_ns(const struct egress *egress)
{
	return egress->pacer.next_ns;
}
