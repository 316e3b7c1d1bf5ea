/* See ports/storm.h. */
#include "ports/storm.h"

#include "ports/transit.h"

static void look(struct stack_port *port, u64 now_ns)
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
	}
}

void storm_watch(struct stack *stack, struct stack_port *port, u64 now_ns)
{
	if (port->watchdog.action == WATCHDOG_OFF)
		return;
	if (port->watch_ns <= now_ns) {
		look(port, now_ns);
		port->watch_ns = now_ns + watchdog_poll_ns(&port->watchdog);
	}
	for (u32 priority = 0; priority < PRIORITIES; priority++)
		if (storm_is(port, priority, WATCHDOG_DROP))
			transit_drop(stack, port, priority);
	port_wake_at(port, port->watch_ns);
}
