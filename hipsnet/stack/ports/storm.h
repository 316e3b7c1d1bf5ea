/*
 * Storms of a server's port: frames that pass through wait for a neighbour that pauses for ever. The watchdog
 * (cable/watchdog.h) looks at what is held for each priority; see ports/transit.h.
 */
#pragma once

#include "ports/port.h"

/* Looks if it is time to, and loses what the watchdog wants lost; sets the time of the next look. */
void storm_watch(struct stack *stack, struct stack_port *port, u64 now_ns);

static inline bool storm_is(const struct stack_port *port, u32 priority, enum watchdog_action action)
{
	return port->watchdog.action == action && port->storming & (1u << priority);
}
