/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that pass through this server and may not leave yet: the server's buffer between two cables.
 *
 * The program on a port forwards a frame itself while the way is open. While the egress port is paused for
 * the frame's priority, and until the frames that wait for it have left, the program hands frames to the
 * endpoint, addressed for the egress port already. They wait here in order, and pause the port they came by
 * only when its share of the receive buffer is full.
 *
 * The program does so only for an endpoint that polls (kernel/pauses.h: polled_ns, POLL_RECENT_NS). While the
 * process computes, later frames overtake those that wait here. When it polls again, it sends them: late and
 * out of order, which the transports repair. After TRANSIT_LIFETIME_NS without a poll it drops them instead:
 * a network bounds the lifetime of a packet (802.1D: a maximum bridge transit delay of 1 s; InfiniBand: the
 * switch lifetime limit), so that none is taken for a new one with the same sequence number.
 */
#pragma once

#include "ports/port.h"

#define TRANSIT_LIFETIME_NS 1000000000ULL

struct stack;

/* Takes over a frame that came in by `from` and is addressed for another port; false: the caller keeps it. */
bool transit_take(struct stack *stack, struct stack_port *from, const struct xsk_frame *frame);

/* Sends the first frame that may leave by a port now. Returns its bytes; 0 if there is none. */
u32 transit_send(struct stack *stack, struct stack_port *port, u64 now_ns);

/* Drops the frames that wait for a port in a priority: the watchdog's. */
void transit_drop(struct stack *stack, struct stack_port *port, u32 priority);

/* Drops the frames that wait for any port, and those in the sockets that are to wait: they are too old. */
void transit_expire(struct stack *stack);

/* Stops counting frames that the program handed over and the socket dropped: the way would never open. */
void transit_settle(struct stack *stack, struct stack_port *port, u64 now_ns);
