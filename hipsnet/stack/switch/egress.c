// SPDX-License-Identifier: Apache-2.0
/* See switch/egress.h. */
#include "switch/egress.h"

#include <stddef.h>

void egress_init(struct egress *egress, u64 rate_bps, u64 burst_ns, const u32 *weights, u32 longest_frame)
{
	*egress = (struct egress){0};
	pacer_init(&egress->pacer, rate_bps, burst_ns);
	for (u32 priority = 0; priority < PRIORITIES; priority++)
		egress->quanta[priority] = weights[priority] * longest_frame;
}

void egress_put(struct egress *egress, struct packet *packet)
{
	struct queue *queue = &egress->queues[packet->priority];

	packet->next = NULL;
	if (queue->first)
		queue->last->next = packet;
	else
		queue->first = packet;
	queue->last = packet;
	egress->waiting |= (u8)(1u << packet->priority);
}

static struct packet *take(struct egress *egress, u32 priority)
{
	struct queue *queue = &egress->queues[priority];
	struct packet *packet = queue->first;

	queue->first = packet->next;
	if (!queue->first) {
		egress->waiting &= (u8) ~(1u << priority);
		egress->deficits[priority] = 0;
	}
	return packet;
}

/* A queue keeps its turn while its deficit lasts. Paused and empty queues accumulate no deficit. */
static u32 pick_by_weight(struct egress *egress, u8 ready)
{
	for (;;) {
		u32 turn = egress->turn;

		if (ready & (1u << turn) && egress->deficits[turn] >= egress->queues[turn].first->bytes) {
			egress->deficits[turn] -= egress->queues[turn].first->bytes;
			return turn;
		}
		if (!(ready & (1u << turn)))
			egress->deficits[turn] = 0;
		turn = (turn + 1) % PRIORITIES;
		egress->turn = (u8)turn;
		if (ready & (1u << turn))
			egress->deficits[turn] += egress->quanta[turn];
	}
}

struct packet *egress_take(struct egress *egress, u8 open, u64 now)
{
	u8 ready = egress->waiting & open;

	if (!ready || !pacer_may_send(&egress->pacer, now))
		return NULL;
	u32 highest = 31 - (u32)__builtin_clz(ready);
	struct packet *packet = take(egress, egress->quanta[0] ? pick_by_weight(egress, ready) : highest);

	pacer_sent(&egress->pacer, packet->bytes, now);
	return packet;
}

struct packet *egress_drop(struct egress *egress, u8 priorities)
{
	u32 some = egress->waiting & priorities;

	return some ? take(egress, (u32)__builtin_ctz(some)) : NULL;
}
