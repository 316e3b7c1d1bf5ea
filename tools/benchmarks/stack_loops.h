/* SPDX-License-Identifier: Apache-2.0 */
/* What tools/bench stack measures, in C on both sides, so that no interpreter is measured with it. */
#pragma once

#include "ports/stack.h"
#include "xsk/xsk.h"

/* Sends the same frame until a time; how many were handed to the kernel. */
u64 bare_send(struct xsk *xsk, const u8 *frame, u32 bytes, u64 until_ns);

/* Receives, and looks at nothing, until a time; how many came. */
u64 bare_receive(struct xsk *xsk, u64 until_ns);

struct flow {
	struct stack *stack;
	struct rc *pair;
	const u8 *memory;
	u32 bytes;
	u32 remote_key;
	u32 depth; /* writes under way */
};

/* Writes the memory to the peer again and again until a time; how many writes the peer has acknowledged. */
u64 flow_send(const struct flow *flow, u64 until_ns);

/* Works until a time; how many writes have come. */
u64 flow_receive(const struct flow *flow, u64 until_ns);

/* `count` round trips of one write each, started by the side that begins; total nanoseconds, 0 on a stall. */
u64 flow_ping(const struct flow *flow, u32 count, bool begins);

/* The same over a connected socket. */
u64 tcp_ping(int fd, u8 *memory, u32 bytes, u32 count, bool begins);
