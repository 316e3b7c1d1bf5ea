// SPDX-License-Identifier: Apache-2.0
/* The core on the TCP wire: the peers are the other ends of socket pairs, and write streams in pieces. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/wire/tcp_connection.h"
#include "peers.h"

#define STREAM_MAX  0x8000
#define MESSAGE_MAX (MESSAGE_HEADER_MAX + FUZZ_EAGER_BYTES)
#define SEND_BUFFER 4608

/* A peer's end, and the bytes that it has not written yet. */
struct end {
	int fd;
	u8 stream[STREAM_MAX];
	u32 bytes;
};

static struct end ends[FUZZ_CONNECTIONS];

static const struct wire_operations *open_wire(struct world *world)
{
	int near[FUZZ_CONNECTIONS], size = SEND_BUFFER;

	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++) {
		int both[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both))
			abort();
		setsockopt(both[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		near[i] = both[0];
		ends[i].fd = both[1];
		ends[i].bytes = 0;
	}
	world->wire = tcp_wire_open(near, FUZZ_CONNECTIONS, MESSAGE_MAX);
	if (!world->wire)
		abort();
	return tcp_wire_operations();
}

static void close_wire(struct world *world)
{
	tcp_wire_close(world->wire);
	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++)
		if (ends[i].fd >= 0)
			close(ends[i].fd);
}

static void transfer(struct world *world)
{
	tcp_wire_operations()->flush(world->wire, world->core, world->now_ns);
	tcp_wire_operations()->progress(world->wire, world->core, world->now_ns);
}

/* Writes at most `most` bytes of the stream. */
static void deliver(struct world *world, u32 connection, u32 most)
{
	struct end *end = &ends[connection];
	u32 bytes = end->bytes < most ? end->bytes : most;
	ssize_t sent = end->fd < 0 ? (ssize_t)bytes : send(end->fd, end->stream, bytes, MSG_NOSIGNAL);

	if (sent < 0)
		sent = errno == EAGAIN ? 0 : (ssize_t)end->bytes;
	end->bytes -= sent;
	memmove(end->stream, end->stream + sent, end->bytes);
	transfer(world);
}

static void add(struct end *end, const void *bytes, u32 length)
{
	if (bytes)
		memcpy(end->stream + end->bytes, bytes, length);
	else
		memset(end->stream + end->bytes, 2, length);
	end->bytes += length;
}

static void put(u8 *at, u64 value, u32 bytes)
{
	for (u32 i = 0; i < bytes; i++)
		at[i] = value >> 8 * i;
}

/* Adds a frame to the stream, and delivers all, or only a part. */
static void frame(struct world *world, u32 connection, const u8 *header, const u8 *bytes, u32 length)
{
	struct end *end = &ends[connection];
	u32 most = choose(world, 1);

	if (STREAM_MAX - end->bytes < TCP_HEADER + length)
		return;
	add(end, header, TCP_HEADER);
	add(end, bytes, length);
	deliver(world, connection, most < 0xe0 ? STREAM_MAX : choose(world, 1));
}

static void message(struct world *world, u32 connection, const u8 *bytes, u32 length)
{
	u8 header[TCP_HEADER] = {TCP_MESSAGE};

	put(header + 8, length, 4);
	frame(world, connection, header, bytes, length);
}

static void write_region(struct world *world, u32 connection, wire_key key, u64 offset, u32 bytes,
			 u32 immediate)
{
	u8 header[TCP_HEADER] = {TCP_WRITE};

	put(header + 4, key, 4);
	put(header + 8, bytes, 4);
	put(header + 12, immediate, 4);
	put(header + 16, offset, 8);
	frame(world, connection, header, NULL, bytes < 2 * FUZZ_SLOT_BYTES ? bytes : 2 * FUZZ_SLOT_BYTES);
}

static void raw(struct world *world, u32 connection, const u8 *bytes, u32 length)
{
	if (STREAM_MAX - ends[connection].bytes < length)
		return;
	add(&ends[connection], bytes, length);
	deliver(world, connection, STREAM_MAX);
}

static void hang_up(struct world *world, u32 connection)
{
	if (ends[connection].fd >= 0)
		close(ends[connection].fd);
	ends[connection].fd = -1;
	transfer(world);
}

/* A peer writes more of its stream, or reads from ours. */
static void progress(struct world *world)
{
	u32 choice = choose(world, 1), connection = choice % FUZZ_CONNECTIONS;
	u8 bytes[4096];

	if (choice < 0x60)
		deliver(world, connection, choose(world, 1) << (choice & 8));
	else if (choice < 0xf0 && ends[connection].fd >= 0 &&
		 recv(ends[connection].fd, bytes, 1 + (choose(world, 1) << 4), MSG_DONTWAIT) < 0 &&
		 errno != EAGAIN && errno != ECONNRESET)
		abort();
	transfer(world);
}

const struct target target = {
	.open = open_wire,
	.close = close_wire,
	.message = message,
	.write = write_region,
	.raw = raw,
	.hang_up = hang_up,
	.progress = progress,
};
