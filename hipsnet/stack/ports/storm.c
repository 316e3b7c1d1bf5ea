// SPDX-License-Identifier: Apache-2.0
/* See ports/storm.h. */
#include "ports/storm.h"

#include "ports/transit.h"

#define RECORD_LOOKS 10000

static u64 victims_of(const struct stack *stack, const struct transit_queue *queue)
{
	u64 ports = 0;

	for (u32 at = queue->first, i = 0; i < queue->count; at = stack->held[at].next, i++)
		ports |= 1ULL << stack->held[at].from->config.key % STORM_VICTIMS;
	return ports;
}

/* While the program records a storm, it resets victims and losses: wait until it has, which takes no time. */
static void await_record(const struct pauses *shared, u32 priority)
{
	for (u32 i = 0; i < RECORD_LOOKS; i++)
		if (!(__atomic_load_n(&shared->storm_ns[priority], __ATOMIC_SEQ_CST) & STORM_RECORDING))
			return;
}

/* Records a storm where the program and others read it; the program may have detected it first. */
static void record(const struct stack *stack, struct stack_port *port, u32 priority, u64 now_ns)
{
	const struct transit_queue *queue = &port->transit[priority];
	struct pauses *shared = port->pauses;

	if (!port->watched[priority].is_storming) {
		storm_over(shared, priority, now_ns);
		return;
	}
	u64 victims = victims_of(stack, queue), none = 0, seen_ns = now_ns & ~STORM_RECORDING;

	if (!__atomic_compare_exchange_n(&shared->storm_ns[priority], &none, seen_ns | STORM_RECORDING, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		await_record(shared, priority);
		__atomic_fetch_or(&shared->storm_victims[priority], victims, __ATOMIC_SEQ_CST);
		return;
	}
	shared->storm_since_ns[priority] = port->watched[priority].began_ns;
	shared->storm_waiting[priority] = queue->count;
	shared->storm_victims[priority] = victims;
	shared->storm_lost[priority] = shared->storm_over_ns[priority] = 0;
	shared->storm_seen_ns[priority] = seen_ns;
	shared->storms[priority]++;
	__atomic_store_n(&shared->storm_ns[priority], seen_ns, __ATOMIC_SEQ_CST);
}

void storm_over(struct pauses *pauses, u32 priority, u64 now_ns)
{
	u64 storm_ns = __atomic_load_n(&pauses->storm_ns[priority], __ATOMIC_RELAXED);

	if (!storm_ns)
		return;
	pauses->storm_over_ns[priority] = now_ns;
	__atomic_compare_exchange_n(&pauses->storm_ns[priority], &storm_ns, 0, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
}

void storm_lose(struct stack_port *port, u32 priority)
{
	port->counters.storm_dropped++;
	__atomic_fetch_add(&port->pauses->storm_lost[priority], 1, __ATOMIC_RELAXED);
}

static void check(const struct stack *stack, struct stack_port *port, u64 now_ns)
{
	pfc_settle(&port->pfc, now_ns);
	for (u32 priority = 0; priority < PRIORITIES; priority++) {
		const struct watchdog_seen seen = {
			.held = port->transit[priority].count,
			.sent = port->sent[priority],
			.paused_us = port->pfc.counters[priority].rx_pause_us,
		};
		enum watchdog_news news =
			watchdog_look(&port->watchdog, &port->watched[priority], &seen, now_ns);

		if (news == WATCHDOG_NOTHING)
			continue;
		port->storming ^= (u8)(1u << priority);
		port->counters.storms += news == WATCHDOG_STORM;
		record(stack, port, priority, now_ns);
	}
}

void storm_watch(struct stack *stack, struct stack_port *port, u64 now_ns)
{
	if (port->watchdog.action == WATCHDOG_OFF)
		return;
	if (port->watch_ns <= now_ns) {
		check(stack, port, now_ns);
		port->watch_ns = now_ns + watchdog_poll_ns(&port->watchdog);
	}
	for (u32 priority = 0; priority < PRIORITIES; priority++)
		if (storm_is(port, priority, WATCHDOG_DROP))
			transit_drop(stack, port, priority);
	port_wake_at(port, port->watch_ns);
}
