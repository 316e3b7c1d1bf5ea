// SPDX-License-Identifier: Apache-2.0
/* The XDP wire: all its connections, and the loop over the stack's ports in parts (ports/stack.h). */
#include "engine/wire/xdp.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/core/core.h"
#include "engine/wire/xdp_connection.h"
#include "ports/clock.h"
#include "ports/stack.h"

#define EVENTS    16
#define LISTEN_NS 20000000ULL /* a sleep by the clock does not see the sockets */
#define SOON_NS   1000000ULL  /* of an ACK: that of a write is due in less, that of a message later */

static bool open_connection(struct xdp_wire *wire, u32 number, struct rc *rc, int socket)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};

	return xdp_connection_open(&wire->connection[number], rc, socket, wire->message_max) &&
	       !epoll_ctl(wire->epoll, EPOLL_CTL_ADD, socket, &event);
}

struct xdp_wire *xdp_wire_open(struct stack *stack, struct rc *const *pairs, const int *sockets,
			       u32 connections, u32 message_max)
{
	struct xdp_wire *wire = calloc(1, sizeof(*wire));
	bool is_open;

	if (!wire)
		return NULL;
	wire->stack = stack;
	wire->connections = connections;
	wire->message_max = message_max;
	wire->connection = calloc(connections + 1, sizeof(*wire->connection));
	wire->epoll = epoll_create1(EPOLL_CLOEXEC);
	is_open = wire->connection && wire->epoll >= 0;
	for (u32 i = 0; is_open && i < connections; i++)
		is_open = open_connection(wire, i, pairs[i], sockets[i]);
	if (is_open)
		return wire;
	for (u32 i = 0; wire->connection && i < connections; i++)
		wire->connection[i].is_open = false;
	xdp_wire_close(wire);
	return NULL;
}

void xdp_wire_close(struct xdp_wire *wire)
{
	for (u32 i = 0; wire->connection && i < wire->connections; i++)
		xdp_connection_close(&wire->connection[i]);
	if (wire->epoll >= 0)
		close(wire->epoll);
	free(wire->connection);
	free(wire);
}

static bool post_write(void *handle, u32 connection, const void *data, u32 bytes, wire_key key, u64 offset,
		       u32 immediate)
{
	struct xdp_wire *wire = handle;

	return xdp_post_write(&wire->connection[connection], data, bytes, key, offset, immediate);
}

static bool post_message(void *handle, u32 connection, const void *header, u32 header_bytes,
			 const void *payload, u32 payload_bytes)
{
	struct xdp_wire *wire = handle;

	return xdp_post_message(&wire->connection[connection], header, header_bytes, payload, payload_bytes);
}

/* Peers refer to the first byte of a region as address 0. */
static wire_key register_memory(void *handle, void *memory, u64 bytes)
{
	struct xdp_wire *wire = handle;

	return endpoint_register(stack_endpoint(wire->stack), memory, bytes, 0);
}

static void deregister_memory(void *handle, wire_key key)
{
	struct xdp_wire *wire = handle;

	endpoint_deregister(stack_endpoint(wire->stack), key);
}

static void lose_all(struct xdp_wire *wire, struct core *core, int error)
{
	char why[XDP_REASON];

	snprintf(why, sizeof(why), "a port is gone: %s", strerror(error));
	for (u32 i = 0; i < wire->connections; i++)
		if (wire->connection[i].is_open)
			xdp_lose(wire, i, core, why, 0);
}

/* No data will go with the ACKs of writes if no call is under way, and peers wait for them. */
static void flush(void *handle, struct core *core, u64 now_ns)
{
	struct xdp_wire *wire = handle;
	int error;

	if (!core_active(core))
		stack_flush_acks(wire->stack, now_ns + SOON_NS);
	error = stack_send(wire->stack);
	if (error)
		lose_all(wire, core, -error);
}

/* After the stack's frames: a peer sends its last messages before it closes TCP. */
static void listen_to_sockets(struct xdp_wire *wire, struct core *core, u64 now_ns)
{
	struct epoll_event events[EVENTS];
	int count;

	if (!wire->is_socket_ready && now_ns - wire->listened_ns < LISTEN_NS)
		return;
	wire->is_socket_ready = false;
	wire->listened_ns = now_ns;
	count = epoll_wait(wire->epoll, events, EVENTS, 0);
	for (int i = 0; i < count; i++)
		xdp_hear(wire, events[i].data.u32, core);
}

static void progress(void *handle, struct core *core, u64 now_ns)
{
	struct xdp_wire *wire = handle;
	u32 frames = stack_receive(wire->stack, now_ns), done = 0;

	for (u32 i = 0; i < wire->connections; i++)
		done += xdp_take(wire, i, core, now_ns);
	stack_note(wire->stack, frames, done, now_ns);
	listen_to_sockets(wire, core, now_ns);
}

static u64 due_ns(void *handle)
{
	const struct xdp_wire *wire = handle;

	return stack_due_ns(wire->stack);
}

static void wait_for(void *handle, int kick, u64 timeout_ns)
{
	struct xdp_wire *wire = handle;
	struct pollfd others[2] = {{.fd = kick, .events = POLLIN}, {.fd = wire->epoll, .events = POLLIN}};
	u64 now_ns = clock_ns();

	stack_sleep(wire->stack, others, 2, timeout_ns < RC_NEVER - now_ns ? now_ns + timeout_ns : RC_NEVER);
	wire->is_socket_ready |= others[1].revents != 0;
}

static void abandon(void *handle)
{
	struct xdp_wire *wire = handle;

	endpoint_discard(stack_endpoint(wire->stack));
	for (u32 i = 0; i < wire->connections; i++)
		if (!xdp_abandon(&wire->connection[i]))
			rc_abort(wire->connection[i]
					 .rc); /* its memory must not be read: the connection ends */
}

static bool is_drained(void *handle)
{
	struct xdp_wire *wire = handle;

	for (u32 i = 0; i < wire->connections; i++)
		if (wire->connection[i].is_open && rc_posted(wire->connection[i].rc))
			return false;
	return !stack_is_owing(wire->stack);
}

static const struct wire_operations operations = {
	.post_write = post_write,
	.post_message = post_message,
	.register_memory = register_memory,
	.deregister_memory = deregister_memory,
	.flush = flush,
	.progress = progress,
	.wait = wait_for,
	.due_ns = due_ns,
	.abandon = abandon,
	.is_drained = is_drained,
};

const struct wire_operations *xdp_wire_operations(void)
{
	return &operations;
}
