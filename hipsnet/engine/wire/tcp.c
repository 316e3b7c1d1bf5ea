// SPDX-License-Identifier: Apache-2.0
/* The TCP wire: all its sockets. */
#include "engine/wire/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/sockios.h>
#include <linux/time_types.h>

#include "engine/core/core.h"
#include "engine/wire/tcp_connection.h"

#define KICK    0xffffffff /* in place of a connection's number */
#define TICK_MS 1000

static bool open_connection(struct tcp_wire *wire, u32 number, int fd)
{
	struct tcp_connection *self = &wire->connection[number];
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};

	self->fd = fd;
	self->is_open = true;
	self->low_water = 1;
	self->ahead_max = 2 * (TCP_HEADER + wire->message_max);
	self->ahead = malloc(self->ahead_max);
	return ring_open(&self->ring, TCP_WIRE_RING) && self->ahead &&
	       !epoll_ctl(wire->epoll, EPOLL_CTL_ADD, fd, &event);
}

struct tcp_wire *tcp_wire_open(const int *sockets, u32 connections, u32 message_max)
{
	struct tcp_wire *wire = calloc(1, sizeof(*wire));
	bool is_open = wire && message_max < (TCP_WIRE_RING - RING_CONTROL) / 2;

	if (!wire)
		return NULL;
	wire->connections = connections;
	wire->message_max = message_max;
	wire->kick = -1;
	wire->epoll = epoll_create1(EPOLL_CLOEXEC);
	wire->connection = calloc(connections + 1, sizeof(*wire->connection));
	is_open = is_open && wire->epoll >= 0 && wire->connection;
	for (u32 i = 0; is_open && i < connections; i++)
		is_open = open_connection(wire, i, sockets[i]);
	if (is_open)
		return wire;
	for (u32 i = 0; wire->connection && i < connections; i++)
		wire->connection[i].fd = -1; /* the caller keeps ownership */
	tcp_wire_close(wire);
	return NULL;
}

void tcp_wire_close(struct tcp_wire *wire)
{
	for (u32 i = 0; wire->connection && i < wire->connections; i++) {
		struct tcp_connection *self = &wire->connection[i];

		if (self->fd > 0)
			close(self->fd);
		free(self->ahead);
		ring_close(&self->ring);
		free(self->rest);
	}
	if (wire->epoll >= 0)
		close(wire->epoll);
	free(wire->connection);
	free(wire);
}

static bool post_write(void *handle, u32 connection, const void *data, u32 bytes, wire_key key, u64 offset,
		       u32 immediate)
{
	struct tcp_wire *wire = handle;

	return tcp_queue_write(&wire->connection[connection], data, bytes, key, offset, immediate);
}

static bool post_message(void *handle, u32 connection, const void *header, u32 header_bytes,
			 const void *payload, u32 payload_bytes)
{
	struct tcp_wire *wire = handle;

	return tcp_queue_message(&wire->connection[connection], header, header_bytes, payload, payload_bytes);
}

/* Keys are assigned in turn, so that a deregistered key is not reused immediately. */
static wire_key register_memory(void *handle, void *memory, u64 bytes)
{
	struct tcp_wire *wire = handle;

	for (u32 i = 0; i < TCP_WIRE_REGIONS; i++) {
		u32 key = ++wire->next_region % TCP_WIRE_REGIONS;

		if (!key || wire->regions[key].memory)
			continue;
		wire->regions[key] = (struct tcp_region){memory, bytes};
		return key;
	}
	return 0;
}

static void deregister_memory(void *handle, wire_key key)
{
	struct tcp_wire *wire = handle;

	wire->regions[key].memory = NULL;
	for (u32 i = 0; i < wire->connections; i++) {
		struct tcp_connection *self = &wire->connection[i];

		self->discards |= self->target && self->target_key == key;
	}
}

static void set_interest(struct tcp_wire *wire, u32 number, bool was_full)
{
	struct tcp_connection *self = &wire->connection[number];
	struct epoll_event event = {.events = EPOLLIN | (self->is_full ? EPOLLOUT : 0), .data.u32 = number};

	if (self->is_full == was_full || !self->is_open)
		return;
	epoll_ctl(wire->epoll, EPOLL_CTL_MOD, self->fd, &event);
	wire->calls++;
}

/*
 * A send failed because the peer closed the connection. Linux keeps received data after a reset, and that
 * data may contain the peer's ABORT: read it before reporting the close.
 */
static void read_out(struct tcp_wire *wire, u32 number, struct core *core, u64 now_ns)
{
	struct tcp_connection *self = &wire->connection[number];
	char why[TCP_REASON];

	memcpy(why, self->why, sizeof(why));
	do
		self->is_open = true;
	while (tcp_receive(wire, number, core, now_ns) && self->is_open);
	self->is_open = false;
	memcpy(self->why, why, sizeof(why));
}

static void report_end(struct tcp_wire *wire, u32 number, struct core *core)
{
	struct tcp_connection *self = &wire->connection[number];

	epoll_ctl(wire->epoll, EPOLL_CTL_DEL, self->fd, NULL);
	self->first = self->end; /* nothing more leaves */
	core_on_closed(core, number, self->why);
}

static void send_queued(struct tcp_wire *wire, u32 number, struct core *core, u64 now_ns)
{
	struct tcp_connection *self = &wire->connection[number];
	bool was_full = self->is_full;

	tcp_send(wire, number, core);
	set_interest(wire, number, was_full);
	if (!self->is_open) {
		read_out(wire, number, core, now_ns);
		report_end(wire, number, core);
	}
}

static void flush(void *handle, struct core *core, u64 now_ns)
{
	struct tcp_wire *wire = handle;

	for (u32 i = 0; i < wire->connections; i++) {
		struct tcp_connection *self = &wire->connection[i];

		if (self->is_open && self->first != self->end && !self->is_full)
			send_queued(wire, i, core, now_ns);
	}
}

static void progress(void *handle, struct core *core, u64 now_ns)
{
	struct tcp_wire *wire = handle;
	int count = wire->events_left;

	wire->events_left = 0;
	wire->calls++; /* here or in the wait */
	if (!count)
		count = epoll_wait(wire->epoll, wire->events, TCP_EVENTS, 0);
	for (int i = 0; i < count; i++) {
		u32 number = wire->events[i].data.u32, events = wire->events[i].events;
		struct tcp_connection *self;

		if (number == KICK)
			continue;
		self = &wire->connection[number];
		if (self->is_open && events & EPOLLOUT)
			send_queued(wire, number, core, now_ns);
		if (!self->is_open || !(events & ~EPOLLOUT))
			continue;
		tcp_receive(wire, number, core, now_ns);
		if (!self->is_open)
			report_end(wire, number, core);
	}
}

/* As epoll_wait(), with a timeout in ns; before Linux 5.11, in ms. */
static int wait_for_events(struct tcp_wire *wire, u64 timeout_ns)
{
	struct __kernel_timespec timeout = {timeout_ns / 1000000000, timeout_ns % 1000000000};
	int count = -1;

	errno = ENOSYS;
#ifdef SYS_epoll_pwait2
	count = syscall(SYS_epoll_pwait2, wire->epoll, wire->events, TCP_EVENTS, &timeout, NULL, 0);
#endif
	if (count >= 0 || errno == EINTR)
		return count;
	return epoll_wait(wire->epoll, wire->events, TCP_EVENTS,
			  timeout_ns / 1000000 < TICK_MS ? timeout_ns / 1000000 + 1 : TICK_MS);
}

/* The events are for the next progress() of the same thread: one system call instead of two. */
static void wait_for(void *handle, int kick, u64 timeout_ns)
{
	struct tcp_wire *wire = handle;
	int count;

	if (wire->kick != kick) {
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = KICK};

		epoll_ctl(wire->epoll, EPOLL_CTL_ADD, kick, &event);
		wire->kick = kick;
	}
	count = wait_for_events(wire, timeout_ns);
	wire->events_left = count > 0 ? count : 0;
}

static void abandon(void *handle)
{
	struct tcp_wire *wire = handle;

	wire->is_abandoned = true;
	for (u32 i = 0; i < wire->connections; i++)
		tcp_abandon(&wire->connection[i]);
}

/* Closing a socket with unread data resets the connection and discards the data in flight. */
static bool is_drained(void *handle)
{
	struct tcp_wire *wire = handle;

	for (u32 i = 0; i < wire->connections; i++) {
		struct tcp_connection *self = &wire->connection[i];
		int unacknowledged = 0;

		if (!self->is_open)
			continue;
		if (self->first != self->end)
			return false;
		if (!ioctl(self->fd, SIOCOUTQ, &unacknowledged) && unacknowledged)
			return false;
	}
	return true;
}

static const struct wire_operations operations = {
	.post_write = post_write,
	.post_message = post_message,
	.register_memory = register_memory,
	.deregister_memory = deregister_memory,
	.flush = flush,
	.progress = progress,
	.wait = wait_for,
	.abandon = abandon,
	.is_drained = is_drained,
};

const struct wire_operations *tcp_wire_operations(void)
{
	return &operations;
}

u64 tcp_wire_calls(const struct tcp_wire *wire)
{
	return wire->calls;
}
