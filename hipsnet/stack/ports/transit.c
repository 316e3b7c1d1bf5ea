// SPDX-License-Identifier: Apache-2.0
/* Frames that wait for a paused port. See ports/transit.h. */
#include <string.h>

#include "ports/storm.h"
#include "ports/transit.h"

#define SETTLE_NS  10000000ULL
#define TOS_AT     (ETHERNET_BYTES + IPV4_TOS)
#define DSCP_SHIFT 2

static struct stack_port *egress_of(struct stack *stack, const struct xsk_frame *frame)
{
	for (u32 i = 0; i < stack->count; i++)
		if (!memcmp(frame->spans[0].data + ETHERNET_FROM, stack->ports[i]->config.mac, MAC_BYTES))
			return stack->ports[i];
	return NULL;
}

static void one_less(struct pauses *pauses, u32 priority)
{
	if (__atomic_load_n(&pauses->buffered[priority], __ATOMIC_RELAXED))
		__atomic_fetch_sub(&pauses->buffered[priority], 1, __ATOMIC_RELEASE);
}

/* By the map that the port's program uses. */
static u32 priority_of(const struct stack_port *port, const struct xsk_frame *frame)
{
	return port->pauses->priority_of[frame->spans[0].data[TOS_AT] >> DSCP_SHIFT] % PRIORITIES;
}

bool transit_take(struct stack *stack, struct stack_port *from, const struct xsk_frame *frame)
{
	struct stack_port *port = frame->spans[0].bytes > TOS_AT ? egress_of(stack, frame) : NULL;

	if (!port)
		return false;
	u32 priority = priority_of(port, frame), at = stack->free;
	struct transit_queue *queue = &port->transit[priority];

	if (from->stale_chunks) {
		one_less(port->pauses, priority);
		from->counters.transit_dropped++;
		return false;
	}
	if (storm_is(port, priority, WATCHDOG_DROP)) {
		one_less(port->pauses, priority);
		storm_lose(port, priority);
		return false;
	}
	if (at == TRANSIT_NONE) {
		one_less(port->pauses, priority);
		from->counters.transit_dropped++;
		return false;
	}
	stack->free = stack->held[at].next;
	stack->held[at] = (struct held_frame){.frame = *frame, .from = from, .next = TRANSIT_NONE};
	if (queue->count++)
		stack->held[queue->last].next = at;
	else
		queue->first = at;
	queue->last = at;
	from->held_chunks += frame->count;
	from->counters.transit_frames++;
	if (from->held_chunks > from->counters.most_held)
		from->counters.most_held = from->held_chunks;
	return true;
}

static void take_off(struct stack *stack, struct transit_queue *queue)
{
	u32 at = queue->first;
	struct held_frame *held = &stack->held[at];

	queue->first = held->next;
	queue->count--;
	held->from->held_chunks -= held->frame.count;
	held->next = stack->free;
	stack->free = at;
}

u32 transit_send(struct stack *stack, struct stack_port *port, u64 now_ns)
{
	for (u32 priority = PRIORITIES; priority-- > 0;) {
		struct transit_queue *queue = &port->transit[priority];

		if (!queue->count)
			continue;
		if (pfc_is_paused(&port->pfc, priority, now_ns) &&
		    !storm_is(port, priority, WATCHDOG_FORWARD)) {
			port_wake_at(port, port->pfc.priority[priority].paused_until_ns);
			continue;
		}
		const struct xsk_frame *frame = &stack->held[queue->first].frame;

		if (!xsk_forward(port->xsk, frame)) {
			port_wake_at(port, now_ns + PORT_RETRY_NS);
			return 0;
		}
		u32 bytes = frame->bytes;

		port->sent[priority]++;

		take_off(stack, queue);
		one_less(port->pauses, priority);
		return bytes;
	}
	return 0;
}

static void drop_first(struct stack *stack, struct stack_port *port, u32 priority)
{
	struct transit_queue *queue = &port->transit[priority];
	const struct held_frame *held = &stack->held[queue->first];

	xsk_release(held->from->xsk, &held->frame, 1);
	take_off(stack, queue);
	one_less(port->pauses, priority);
}

void transit_drop(struct stack *stack, struct stack_port *port, u32 priority)
{
	while (port->transit[priority].count) {
		drop_first(stack, port, priority);
		storm_lose(port, priority);
	}
}

static void expire_queue(struct stack *stack, struct stack_port *port, u32 priority)
{
	struct transit_queue *queue = &port->transit[priority];

	while (queue->count) {
		stack->held[queue->first].from->counters.transit_dropped++;
		drop_first(stack, port, priority);
	}
}

void transit_expire(struct stack *stack)
{
	for (u32 i = 0; i < stack->count; i++) {
		struct stack_port *port = stack->ports[i];

		port->stale_chunks = xsk_waiting(port->xsk);
		for (u32 priority = 0; priority < PRIORITIES; priority++)
			expire_queue(stack, port, priority);
	}
}

static bool anything_waits(const struct stack *stack)
{
	for (u32 i = 0; i < stack->count; i++)
		if (xsk_waiting(stack->ports[i]->xsk))
			return true;
	return false;
}

void transit_settle(struct stack *stack, struct stack_port *port, u64 now_ns)
{
	for (u32 priority = 0; priority < PRIORITIES; priority++) {
		struct transit_queue *queue = &port->transit[priority];

		if (!__atomic_load_n(&port->pauses->buffered[priority], __ATOMIC_RELAXED) || queue->count ||
		    anything_waits(stack)) {
			queue->settled_ns = now_ns + SETTLE_NS;
			continue;
		}
		if (now_ns >= queue->settled_ns)
			__atomic_store_n(&port->pauses->buffered[priority], 0, __ATOMIC_RELEASE);
		else
			port_wake_at(port, queue->settled_ns);
	}
}
