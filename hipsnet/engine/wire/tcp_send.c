// SPDX-License-Identifier: Apache-2.0
/* The sending half of a TCP connection. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "engine/core/core.h"
#include "engine/wire/tcp_connection.h"

#define PIECES 64 /* of one sendmsg() */

static void put(u8 *at, u64 value, u32 bytes)
{
	for (u32 i = 0; i < bytes; i++)
		at[i] = value >> 8 * i;
}

static struct tcp_frame *next_frame(struct tcp_connection *self)
{
	return self->end - self->first == TCP_FRAMES ? NULL : &self->frames[self->end % TCP_FRAMES];
}

static void fill_header(struct tcp_frame *frame, u8 kind, wire_key key, u32 bytes, u32 immediate, u64 offset)
{
	memset(frame, 0, sizeof(*frame));
	frame->kind = kind;
	frame->immediate = immediate;
	frame->bytes = TCP_HEADER + bytes;
	frame->header[0] = kind;
	put(frame->header + 4, key, 4);
	put(frame->header + 8, bytes, 4);
	put(frame->header + 12, immediate, 4);
	put(frame->header + 16, offset, 8);
}

bool tcp_queue_write(struct tcp_connection *self, const void *data, u32 bytes, wire_key key, u64 offset,
		     u32 immediate)
{
	struct tcp_frame *frame = next_frame(self);

	if (!frame)
		return false;
	fill_header(frame, TCP_WRITE, key, bytes, immediate, offset);
	frame->data = data;
	self->end++;
	return true;
}

bool tcp_queue_message(struct tcp_connection *self, const void *header, u32 header_bytes, const void *payload,
		       u32 payload_bytes)
{
	u32 bytes = header_bytes + payload_bytes, taken;
	struct tcp_frame *frame = next_frame(self);
	u8 *copy = frame ? ring_take(&self->ring, bytes, !payload_bytes, &taken) : NULL;

	if (!copy)
		return false;
	memcpy(copy, header, header_bytes);
	if (payload_bytes)
		memcpy(copy + header_bytes, payload, payload_bytes);
	fill_header(frame, TCP_MESSAGE, 0, bytes, 0, 0);
	frame->data = copy;
	frame->ring_bytes = taken;
	self->end++;
	return true;
}

/* The rest of a write that was started, in memory of the connection: the frames behind it must arrive. */
static void copy_rest(struct tcp_connection *self, struct tcp_frame *frame)
{
	u32 payload = frame->bytes - TCP_HEADER,
	    sent = frame->sent > TCP_HEADER ? frame->sent - TCP_HEADER : 0;

	self->rest = malloc(payload + 1);
	if (self->rest)
		memcpy(self->rest + sent, frame->data + sent, payload - sent);
	else
		shutdown(self->fd, SHUT_RDWR);
	frame->data = self->rest;
}

void tcp_abandon(struct tcp_connection *self)
{
	u32 kept = self->first;

	self->discards = true;

	for (u32 at = self->first; at != self->end; at++) {
		struct tcp_frame *frame = &self->frames[at % TCP_FRAMES];

		if (frame->kind == TCP_WRITE && frame->sent)
			copy_rest(self, frame);
		if (frame->kind == TCP_MESSAGE || frame->sent)
			self->frames[kept++ % TCP_FRAMES] = *frame;
	}
	self->end = kept;
}

/* The unsent pieces of as many frames as one sendmsg() takes. */
static u32 gather(struct tcp_connection *self, struct iovec *pieces)
{
	u32 count = 0;

	for (u32 at = self->first; at != self->end && count + 2 <= PIECES; at++) {
		struct tcp_frame *frame = &self->frames[at % TCP_FRAMES];
		u32 sent = frame->sent;

		if (sent < TCP_HEADER) {
			pieces[count].iov_base = frame->header + sent;
			pieces[count++].iov_len = TCP_HEADER - sent;
			sent = TCP_HEADER;
		}
		if (frame->bytes > sent) {
			pieces[count].iov_base = (u8 *)frame->data + sent - TCP_HEADER;
			pieces[count++].iov_len = frame->bytes - sent;
		}
	}
	return count;
}

/* Accounts `sent` bytes and completes whole frames. */
static void advance(struct tcp_wire *wire, u32 connection, struct core *core, u64 sent)
{
	struct tcp_connection *self = &wire->connection[connection];

	while (self->first != self->end) {
		struct tcp_frame *frame = &self->frames[self->first % TCP_FRAMES];
		u32 left = frame->bytes - frame->sent;
		u32 immediate = frame->immediate;

		if (sent < left) {
			frame->sent += sent;
			return;
		}
		sent -= left;
		ring_free(&self->ring, frame->ring_bytes);
		self->first++;
		if (frame->kind == TCP_WRITE)
			core_on_sent(core, connection, immediate);
	}
}

void tcp_send(struct tcp_wire *wire, u32 connection, struct core *core)
{
	struct tcp_connection *self = &wire->connection[connection];

	self->is_full = false;
	while (self->is_open && self->first != self->end && !self->is_full) {
		struct iovec pieces[PIECES];
		struct msghdr message = {.msg_iov = pieces, .msg_iovlen = gather(self, pieces)};
		u64 total = 0;
		ssize_t sent;

		for (u32 i = 0; i < message.msg_iovlen; i++)
			total += pieces[i].iov_len;
		sent = sendmsg(self->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		wire->calls++;
		if (sent < 0) {
			self->is_full = errno == EAGAIN;
			if (!self->is_full && errno != EINTR) {
				snprintf(self->why, sizeof(self->why), "%s",
					 errno == EPIPE ? "it closed the connection" : strerror(errno));
				self->is_open = false;
			}
			continue;
		}
		self->is_full = (u64)sent < total;
		advance(wire, connection, core, sent);
	}
}
