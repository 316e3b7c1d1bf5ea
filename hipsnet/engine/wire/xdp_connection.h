/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the XDP wire: its queue pair, the messages under way, and the end of the connection. */
#pragma once

#include "engine/core/core.h"
#include "engine/wire/ring.h"
#include "engine/wire/wire.h"
#include "engine/wire/xdp.h"
#include "roce/rc.h"

#define XDP_BYE_BYTES 12 /* magic, and as u64 the number of pieces that have arrived */
#define XDP_REASON    160

struct xdp_connection {
	struct rc *rc;
	int socket;
	bool is_open;
	struct ring ring;
	u8 *receives;          /* XDP_WIRE_DEPTH buffers */
	u8 *copies;            /* of abandoned writes that were started, or NULL */
	u64 finished, arrived; /* writes and messages: ours that the peer has; the peer's that are here */
	u8 bye[XDP_BYE_BYTES];
	u32 bye_bytes;
};

struct xdp_wire {
	struct stack *stack;
	u32 connections, message_max;
	struct xdp_connection *connection;
	int epoll; /* of the sockets */
	bool is_socket_ready;
	u64 listened_ns;
};

bool xdp_connection_open(struct xdp_connection *self, struct rc *rc, int socket, u32 message_max);
void xdp_connection_close(struct xdp_connection *self);

bool xdp_post_write(struct xdp_connection *self, const void *data, u32 bytes, wire_key key, u64 offset,
		    u32 immediate);
bool xdp_post_message(struct xdp_connection *self, const void *header, u32 header_bytes, const void *payload,
		      u32 payload_bytes);

/* Drops the writes not started, and copies the others; false if memory is short. */
bool xdp_abandon(struct xdp_connection *self);

/* Reports the pair's completions to the core; returns their number. */
u32 xdp_take(struct xdp_wire *wire, u32 connection, struct core *core, u64 now_ns);

/* Reads the end of the connection from its socket, which is readable. */
void xdp_hear(struct xdp_wire *wire, u32 connection, struct core *core);

/* Ends the connection; the peer has had `arrived` of this side's writes and messages, acknowledged or not. */
void xdp_lose(struct xdp_wire *wire, u32 connection, struct core *core, const char *why, u64 arrived);
