/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storms of a server's port: frames in transit (ports/transit.h) wait for a peer that pauses forever. The
 * watchdog (cable/watchdog.h) polls the frames held for each priority. It records a storm where the port's
 * program, which has a watchdog of its own (kernel/storm.h), acts on it.
 */
#pragma once

#include "ports/port.h"

/* Polls the watchdog if it is time to, drops frames as its action says, and schedules the next poll. */
void storm_watch(struct stack *stack, struct stack_port *port, u64 now_ns);

/* Counts a frame that is dropped because of a storm. */
void storm_lose(struct stack_port *port, u32 priority);

/* Records the end of a storm, if there is one. */
void storm_over(struct pauses *pauses, u32 priority, u64 now_ns);

static inline bool storm_is(const struct stack_port *port, u32 priority, enum watchdog_action action)
{
	return port->watchdog.action == action && port->storming & (1u << priority);
}
