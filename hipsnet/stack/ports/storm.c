/* See ports/storm.h. */
#include "ports/storm.h"

#include "ports/transit.h"

static u64 victims_of(const struct stack *stack, const struct transit_queue *queue)
{
	u64 ports = 0;

	for (u32 at = queue->first, i = 0; i < queue->count; at = stack->held[at].next, i++)
		ports |= 1ULL << stack->held[at].from->config.key % 64;
	return ports;
}

/* Where the program on the port obeys it, and others read it; the program may have seen it before us. */
static void tell(const struct stack *stack, struct stack_port *port, u32 priority, u64 now_ns)
{
	const struct transit_queue *queue = &port->transit[priority];
	struct pauses *told = port->pauses;

	if (!port->watched[priority].is_storming) {
		storm_over(told, priority, now_ns);
		return;
	}
	u64 victims = victims_of(stack, queue);

	if (told->storm_ns[priority]) {
		told->storm_victims[priority] |= victims;
		return;
	}
	told->storm_since_ns[priority] = port->watched[priority].began_ns;
	told->storm_waiting[priority] = queue->count;
	told->storm_victims[priority] = victims;
	told->storm_lost[priority] = told->storm_over_ns[priority] = 0;
	told->storm_seen_ns[priority] = told->storm_ns[priority] = now_ns;
	told->storms[priority]++;
}

void storm_over(struct pauses *pauses, u32 priority, u64 now_ns)
{
	if (!pauses->storm_ns[priority])
		return;
	pauses->storm_over_ns[priority] = now_ns;
	pauses->storm_ns[priority] = 0;
}

void storm_lose(struct stack_port *port, u32 priority)
{
	port->counters.storm_dropped++;
	__atomic_fetch_add(&port->pauses->storm_lost[priority], 1, __ATOMIC_RELAXED);
}

static void look(const struct stack *stack, struct stack_port *port, u64 now_ns)
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
		tell(stack, port, priority, now_ns);
	}
}

void storm_watch(struct stack *stack, struct stack_port *port, u64 now_ns)
{
	if (port->watchdog.action == WATCHDOG_OFF)
		return;
	if (port->watch_ns <= now_ns) {
		look(stack, port, now_ns);
		port->watch_ns = now_ns + watchdog_poll_ns(&port->watchdog);
	}
	for (u32 priority = 0; priority < PRIORITIES; priority++)
		if (storm_is(port, priority, WATCHDOG_DROP))
			transit_drop(stack, port, priority);
	port_wake_at(port, port->watch_ns);
}
