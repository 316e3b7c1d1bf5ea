/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wire over queue pairs of hipsnet/stack, one for each neighbour and port.
 *
 * A segment is an RDMA WRITE with immediate from the caller's memory into a region of the peer. A message is
 * a SEND from a ring, into which it is copied when it is posted. The peer's progress is known by its
 * acknowledgements: a write counts as sent when the peer has all of it.
 *
 * The stack's endpoint is part of the wire: the engine's lock guards it, and only the sleep is outside of the
 * lock. The TCP connection of the handshake stays open: the kernel closes it when the peer's process ends. A
 * side that closes reports on it how much has arrived, in place of its last acknowledgements.
 *
 * cffi parses this file: declarations and numeric macros only.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

/*
 * Each end posts so many receives, and at most as many messages and writes: they always find a receive,
 * because a side posts it again before it acknowledges.
 */
#define XDP_WIRE_DEPTH 128

struct rc;
struct stack;
struct wire_operations;
struct xdp_wire;

/*
 * The pairs are in the stack, with queues of XDP_WIRE_DEPTH, and not connected yet: receives of `message_max`
 * bytes are posted here. The caller owns the stack and the pairs, which must outlive the wire, and the
 * sockets. NULL if memory or descriptors are short.
 */
struct xdp_wire *xdp_wire_open(struct stack *stack, struct rc *const *pairs, const int *sockets,
			       u32 connections, u32 message_max);

/* Reports to the peers how much has arrived. Their pairs must not be used afterwards. */
void xdp_wire_close(struct xdp_wire *wire);

const struct wire_operations *xdp_wire_operations(void);
