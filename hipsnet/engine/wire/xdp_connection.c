// SPDX-License-Identifier: Apache-2.0
#include "engine/wire/xdp_connection.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define RING_LEAST    0x40000
#define RING_MOST     0x100000
#define CONTROL_POSTS (XDP_WIRE_DEPTH / 2) /* places in the pair's queue that only control messages take */
#define IS_WRITE      (1ULL << 32)         /* in the id of a posted write, above its immediate */

static const u8 BYE_MAGIC[4] = {'b', 'y', 'e', '.'};

/* Enough for as many messages as a receiver has slots, and for control messages. */
static u32 ring_bytes(u32 message_max)
{
	u32 bytes = RING_LEAST;

	while (bytes < RING_MOST && bytes < 16 * message_max + RING_CONTROL)
		bytes *= 2;
	return bytes;
}

bool xdp_connection_open(struct xdp_connection *self, struct rc *rc, int socket, u32 message_max)
{
	self->rc = rc;
	self->socket = socket;
	self->is_open = true;
	self->receives = malloc((u64)XDP_WIRE_DEPTH * message_max);
	if (!ring_open(&self->ring, ring_bytes(message_max)) || !self->receives)
		return false;
	for (u32 i = 0; i < XDP_WIRE_DEPTH; i++)
		if (!rc_post_receive(rc, i, self->receives + (u64)i * message_max, message_max))
			return false;
	return true;
}

/* The farewell replaces acknowledgements that have not reached the peer: none are sent from now on. */
void xdp_connection_close(struct xdp_connection *self)
{
	u8 bye[XDP_BYE_BYTES];

	memcpy(bye, BYE_MAGIC, sizeof(BYE_MAGIC));
	for (u32 i = 0; i < 8; i++)
		bye[4 + i] = (u8)(self->arrived >> 8 * i);
	if (self->is_open)
		send(self->socket, bye, sizeof(bye), MSG_DONTWAIT | MSG_NOSIGNAL);
	ring_close(&self->ring);
	free(self->receives);
	free(self->copies);
}

bool xdp_post_write(struct xdp_connection *self, const void *data, u32 bytes, wire_key key, u64 offset,
		    u32 immediate)
{
	if (!self->is_open)
		return true; /* the core learns of the end by itself */
	if (rc_posted(self->rc) >= XDP_WIRE_DEPTH - CONTROL_POSTS)
		return false;
	return rc_post_write_immediate(self->rc, IS_WRITE | immediate, data, bytes, offset, key, immediate);
}

bool xdp_post_message(struct xdp_connection *self, const void *header, u32 header_bytes, const void *payload,
		      u32 payload_bytes)
{
	u32 bytes = header_bytes + payload_bytes, taken;
	u8 *copy;

	if (!self->is_open)
		return true;
	if (rc_posted(self->rc) >= XDP_WIRE_DEPTH - (payload_bytes ? CONTROL_POSTS : 0))
		return false;
	copy = ring_take(&self->ring, bytes, !payload_bytes, &taken);
	if (!copy)
		return false;
	memcpy(copy, header, header_bytes);
	if (payload_bytes)
		memcpy(copy + header_bytes, payload, payload_bytes);
	return rc_post_send(self->rc, taken, copy, bytes);
}

bool xdp_abandon(struct xdp_connection *self)
{
	u64 bytes = rc_started_bytes(self->rc);

	if (!self->is_open || self->copies)
		return true;
	self->copies = malloc(bytes + 1);
	if (self->copies)
		rc_drop_writes(self->rc, self->copies);
	return self->copies;
}

/* The peer has the oldest write or message. */
static void finish(struct xdp_wire *wire, u32 connection, struct core *core, u64 id)
{
	struct xdp_connection *self = &wire->connection[connection];

	self->finished++;
	if (id & IS_WRITE)
		core_on_sent(core, connection, (u32)id);
	else
		ring_free(&self->ring, (u32)id);
}

static void take_receive(struct xdp_wire *wire, u32 connection, struct core *core,
			 const struct rc_completion *done, u64 now_ns)
{
	struct xdp_connection *self = &wire->connection[connection];
	u8 *buffer = self->receives + done->id * wire->message_max;

	self->arrived++;
	if (done->kind == RC_WRITTEN)
		core_on_written(core, connection, done->immediate, now_ns);
	else
		core_on_message(core, connection, buffer, done->bytes, now_ns);
	rc_post_receive(self->rc, done->id, buffer, wire->message_max);
}

/* Why the pair has failed, if it was this side that refused a request. */
static const char *words_of(const struct rc *rc, u32 status)
{
	if (status != RC_FLUSHED || !rc_refused(rc))
		return rc_words(status);
	return rc_refused(rc) == RC_REMOTE_ACCESS
		       ? "it wrote to memory that is not registered, or beyond its end"
		       : "it sent a request that is malformed or not supported";
}

u32 xdp_take(struct xdp_wire *wire, u32 connection, struct core *core, u64 now_ns)
{
	struct xdp_connection *self = &wire->connection[connection];
	struct rc_completion done;
	u32 count = 0;

	for (; self->is_open && rc_poll_completion(self->rc, &done); count++) {
		if (done.status)
			xdp_lose(wire, connection, core, words_of(self->rc, done.status), 0);
		else if (done.kind == RC_SENT)
			finish(wire, connection, core, done.id);
		else
			take_receive(wire, connection, core, &done, now_ns);
	}
	return count;
}

void xdp_lose(struct xdp_wire *wire, u32 connection, struct core *core, const char *why, u64 arrived)
{
	struct xdp_connection *self = &wire->connection[connection];
	struct rc_completion done;

	self->is_open = false; /* nothing is posted from now on, also by the core's answers below */
	epoll_ctl(wire->epoll, EPOLL_CTL_DEL, self->socket, NULL);
	rc_abort(self->rc);
	while (rc_poll_completion(self->rc, &done))
		if (done.kind == RC_SENT && self->finished < arrived)
			finish(wire, connection, core, done.id);
	core_on_closed(core, connection, why);
}

/* The number of our pieces that the peer has got; 0 if it did not say. */
static u64 arrived_there(const struct xdp_connection *self)
{
	u64 arrived = 0;

	if (self->bye_bytes != XDP_BYE_BYTES || memcmp(self->bye, BYE_MAGIC, sizeof(BYE_MAGIC)))
		return 0;
	for (u32 i = 0; i < 8; i++)
		arrived |= (u64)self->bye[4 + i] << 8 * i;
	return arrived;
}

void xdp_hear(struct xdp_wire *wire, u32 connection, struct core *core)
{
	struct xdp_connection *self = &wire->connection[connection];
	ssize_t bytes = recv(self->socket, self->bye + self->bye_bytes, XDP_BYE_BYTES - self->bye_bytes,
			     MSG_DONTWAIT);

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes > 0)
		self->bye_bytes += (u32)bytes;
	if (bytes < 0)
		xdp_lose(wire, connection, core, strerror(errno), 0);
	else if (!bytes || self->bye_bytes == XDP_BYE_BYTES)
		xdp_lose(wire, connection, core, "it closed the connection", arrived_there(self));
}
