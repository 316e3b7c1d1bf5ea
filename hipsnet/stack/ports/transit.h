/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that pass through this server and may not leave yet: the server's memory between two cables.
 *
 * The program on a port forwards a frame itself while the way is open. While the egress port is paused for
 * the frame's priority, and until those that wait have left, it hands frames to the endpoint, addressed for
 * the egress port already. They wait here in order, and pause the port they came by only when its share of
 * the receive buffer is full.
 */
#pragma once

#include "ports/port.h"

struct stack;

/* Takes over a frame that came in by `from` and is addressed for another port; false: it is the caller's. */
bool transit_take(struct stack *stack, struct stack_port *from, const struct xsk_frame *frame);

/* Sends the first frame that may leave by a port now. Its bytes; 0 if there is none. */
u32 transit_send(struct stack *stack, struct stack_port *port, u64 now_ns);

/* Loses all that wait for a port in a priority. */
void transit_drop(struct stack *stack, struct stack_port *port, u32 priority);

/* Forgets frames that the program handed over and the socket had no room for: the way would never open. */
void transit_settle(struct stack *stack, struct stack_port *port, u64 now_ns);
