/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storms of a server's port: frames that pass through wait for a neighbour that pauses for ever. The watchdog
 * (cable/watchdog.h) looks at what is held for each priority; see ports/transit.h. What it finds stands where
 * the port's program, which has a watchdog of its own (kernel/storm.h), obeys it.
 */
#pragma once

#include "ports/port.h"

/* Looks if it is time to, and loses what the watchdog wants lost; sets the time of the next look. */
void storm_watch(struct stack *stack, struct stack_port *port, u64 now_ns);

/* A frame is lost because of a storm. */
void storm_lose(struct stack_port *port, u32 priority);

/* A storm that was told is over, if there was one. */
void storm_over(struct pauses *pauses, u32 priority, u64 now_ns);

static inline bool storm_is(const struct stack_port *port, u32 priority, enum watchdog_action action)
{
	return port->watchdog.action == action && port->storming & (1u << priority);
}
