// SPDX-License-Identifier: Apache-2.0
/* The receiving half of a TCP connection: every length and destination is checked before a byte is copied. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "engine/core/core.h"
#include "engine/wire/tcp_connection.h"

static u64 get(const u8 *at, u32 bytes)
{
	u64 value = 0;

	for (u32 i = 0; i < bytes; i++)
		value |= (u64)at[i] << 8 * i;
	return value;
}

static void end(struct tcp_connection *self, const char *why)
{
	snprintf(self->why, sizeof(self->why), "%s", why);
	self->is_open = false;
}

/* One wake-up for the rest of a large write, not one per TCP segment. */
static void set_low_water(struct tcp_wire *wire, struct tcp_connection *self)
{
	u32 low_water = self->target_bytes > TCP_LOW_WATER && !self->discards ? self->target_bytes : 1;
	int value = low_water;

	if (low_water == self->low_water)
		return;
	self->low_water = low_water;
	setsockopt(self->fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof(value));
	wire->calls++;
}

/* A header of a write has arrived: its bytes go to the region. False if the region does not contain them. */
static bool begin_write(struct tcp_wire *wire, struct tcp_connection *self, const u8 *header)
{
	u32 key = get(header + 4, 4), bytes = get(header + 8, 4);
	u64 offset = get(header + 16, 8);
	const struct tcp_region *region = &wire->regions[key % TCP_WIRE_REGIONS];

	if (!key || key >= TCP_WIRE_REGIONS || !region->memory || bytes > region->bytes ||
	    offset > region->bytes - bytes) {
		snprintf(self->why, sizeof(self->why),
			 "it wrote %u bytes at offset %llu of region %u, which does not contain them", bytes,
			 offset, key);
		self->is_open = false;
		return false;
	}
	self->immediate = get(header + 12, 4);
	self->target = region->memory + offset;
	self->target_bytes = bytes;
	self->target_key = key;
	self->discards = wire->is_abandoned;
	return true;
}

/* Accounts bytes of the write being received. False if more of its bytes are to come. */
static bool advance(struct tcp_connection *self, u32 connection, struct core *core, u32 bytes, u64 now_ns)
{
	if (!self->discards)
		self->target += bytes;
	self->target_bytes -= bytes;
	if (self->target_bytes)
		return false;
	self->target = NULL;
	core_on_written(core, connection, self->immediate, now_ns);
	return true;
}

/* Parses the frames in the read-ahead buffer; a write that continues beyond it becomes the target. */
static void parse(struct tcp_wire *wire, u32 connection, struct core *core, u64 now_ns)
{
	struct tcp_connection *self = &wire->connection[connection];
	u32 at = 0;

	while (self->is_open) {
		const u8 *header = self->ahead + at;
		u32 left = self->ahead_bytes - at, bytes;

		if (self->target) {
			u32 there = left < self->target_bytes ? left : self->target_bytes;

			if (!self->discards)
				memcpy(self->target, header, there);
			at += there;
			if (!advance(self, connection, core, there, now_ns))
				break;
			continue;
		}
		if (left < TCP_HEADER)
			break;
		bytes = get(header + 8, 4);
		if (header[0] == TCP_MESSAGE && bytes <= wire->message_max) {
			if (left - TCP_HEADER < bytes)
				break;
			at += TCP_HEADER + bytes;
			core_on_message(core, connection, header + TCP_HEADER, bytes, now_ns);
		} else if (header[0] == TCP_WRITE) {
			at += TCP_HEADER;
			begin_write(wire, self, header);
		} else {
			end(self, "it sent a malformed frame");
		}
	}
	memmove(self->ahead, self->ahead + at, self->ahead_bytes - at);
	self->ahead_bytes -= at;
}

bool tcp_receive(struct tcp_wire *wire, u32 connection, struct core *core, u64 now_ns)
{
	struct tcp_connection *self = &wire->connection[connection];
	struct iovec pieces[2];
	struct msghdr message = {.msg_iov = pieces};
	u32 direct = 0; /* bytes that arrive in the region itself */
	ssize_t received;

	if (self->target && !self->discards)
		pieces[message.msg_iovlen++] = (struct iovec){self->target, self->target_bytes};
	pieces[message.msg_iovlen++] =
		(struct iovec){self->ahead + self->ahead_bytes, self->ahead_max - self->ahead_bytes};
	received = recvmsg(self->fd, &message, MSG_DONTWAIT);
	wire->calls++;
	if (received <= 0) {
		if (received == 0)
			end(self, "it closed the connection");
		else if (errno != EAGAIN && errno != EINTR)
			end(self, strerror(errno));
		return false;
	}
	if (message.msg_iovlen == 2) {
		direct = (u32)received < self->target_bytes ? (u32)received : self->target_bytes;
		advance(self, connection, core, direct, now_ns);
	}
	self->ahead_bytes += received - direct;
	parse(wire, connection, core, now_ns);
	if (self->is_open)
		set_low_water(wire, self);
	return true;
}
