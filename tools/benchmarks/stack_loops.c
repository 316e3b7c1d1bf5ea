// SPDX-License-Identifier: Apache-2.0
/* See stack_loops.h. */
#define _GNU_SOURCE
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stack_loops.h"

#define BATCH      64
#define WAIT_NS    100000000ULL
#define GIVE_UP_NS 10000000000ULL /* on a round trip */

static u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000000000ULL + (u64)now.tv_nsec;
}

u64 bare_send(struct xsk *xsk, const u8 *frame, u32 bytes, u64 until_ns)
{
	u64 count = 0;

	while (now_ns() < until_ns) {
		for (u32 i = 0; i < BATCH; i++) {
			u8 *out = xsk_reserve(xsk);

			if (!out)
				break;
			/* The headers only: what follows them is not this loop's. */
			memcpy(out, frame, 64);
			xsk_commit(xsk, out, bytes);
			count++;
		}
		xsk_kick(xsk);
	}
	return count;
}

u64 bare_receive(struct xsk *xsk, u64 until_ns)
{
	struct xsk_frame frames[BATCH];
	struct pollfd news = {.fd = xsk_fd(xsk), .events = POLLIN};
	u64 count = 0;

	while (now_ns() < until_ns) {
		u32 batch = xsk_receive(xsk, frames, BATCH);

		xsk_release(xsk, frames, batch);
		count += batch;
		if (!batch)
			poll(&news, 1, 10);
	}
	return count;
}

static bool post(const struct flow *flow, u64 id)
{
	return rc_post_write_immediate(flow->pair, id, flow->memory, flow->bytes, 0, flow->remote_key, 0);
}

/* Takes completions and posts receives again; returns the number of completions of this kind. */
static u32 work(const struct flow *flow, u32 kind, u64 wait_ns)
{
	struct stack_completion done[BATCH];
	int count = stack_poll(flow->stack, wait_ns, done, BATCH);
	u32 found = 0;

	for (int i = 0; i < count; i++) {
		found += done[i].kind == kind && !done[i].status;
		if (done[i].kind != RC_SENT && !done[i].status)
			rc_post_receive(flow->pair, done[i].id, NULL, 0);
	}
	return found;
}

u64 flow_send(const struct flow *flow, u64 until_ns)
{
	u64 posted = 0, sent = 0;

	while (now_ns() < until_ns) {
		while (posted - sent < flow->depth && post(flow, posted))
			posted++;
		sent += work(flow, RC_SENT, WAIT_NS);
	}
	return sent;
}

u64 flow_receive(const struct flow *flow, u64 until_ns)
{
	u64 count = 0;

	while (now_ns() < until_ns)
		count += work(flow, RC_WRITTEN, WAIT_NS);
	return count;
}

u64 flow_ping(const struct flow *flow, u32 count, bool begins)
{
	u64 began = now_ns();

	for (u32 i = 0; i < count; i++) {
		u64 last = now_ns() + GIVE_UP_NS;

		if (begins && !post(flow, i))
			return 0;
		while (!work(flow, RC_WRITTEN, WAIT_NS))
			if (now_ns() > last)
				return 0;
		if (!begins && !post(flow, i))
			return 0;
	}
	u64 took = now_ns() - began;

	/* The last answer is still to be sent, and acknowledged. */
	work(flow, RC_SENT, WAIT_NS / 10);
	return took;
}

static bool read_all(int fd, u8 *memory, u32 bytes)
{
	for (u32 got = 0; got < bytes;) {
		ssize_t more = read(fd, memory + got, bytes - got);

		if (more <= 0)
			return false;
		got += (u32)more;
	}
	return true;
}

u64 tcp_ping(int fd, u8 *memory, u32 bytes, u32 count, bool begins)
{
	u64 began = now_ns();

	for (u32 i = 0; i < count; i++) {
		if (begins && write(fd, memory, bytes) != (ssize_t)bytes)
			return 0;
		if (!read_all(fd, memory, bytes))
			return 0;
		if (!begins && write(fd, memory, bytes) != (ssize_t)bytes)
			return 0;
	}
	return now_ns() - began;
}
