// SPDX-License-Identifier: Apache-2.0
/* See ports/wait.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>

#include "ports/clock.h"
#include "ports/wait.h"

#define LOOK_NS       1000000ULL /* the interval over which frames are counted */
#define STREAM_FRAMES 16         /* in that interval, plus as many per message: a stream */
#define FRAME_BITS    (4096 * 8)
#define TOGETHER      2         /* frames of a stream per wake-up */
#define LEAST_NS      100000ULL /* bounds of the sleep between two wake-ups */
#define MOST_NS       350000ULL

/* On slow cables half of the rate is a stream already. */
static u32 stream_frames(const struct stack *stack)
{
	u64 bps = 0, half;

	for (u32 i = 0; i < stack->count; i++)
		bps += stack->ports[i]->config.rate_bps;
	half = bps * LOOK_NS / NS_PER_S / FRAME_BITS / 2;
	return half && half < STREAM_FRAMES ? (u32)half : STREAM_FRAMES;
}

static u64 lie_ns(u64 wanted_ns)
{
	u64 bounded_ns = wanted_ns < MOST_NS ? wanted_ns : MOST_NS;

	return bounded_ns > LEAST_NS ? bounded_ns : LEAST_NS;
}

void wait_note(struct stack *stack, u32 frames, u32 completions, u64 now_ns)
{
	if (now_ns - stack->look_ns >= LOOK_NS) {
		u64 passed_ns = now_ns - stack->look_ns;
		u32 enough = stream_frames(stack) + STREAM_FRAMES * stack->look_completions;
		bool is_stream = stack->look_frames >= enough && passed_ns < 2 * LOOK_NS;

		stack->stream_ns = is_stream ? lie_ns(passed_ns * TOGETHER / stack->look_frames) : 0;
		stack->look_ns = now_ns;
		stack->look_frames = stack->look_completions = 0;
	}
	stack->look_frames += frames;
	stack->look_completions += completions;
}

static struct timespec time_of(u64 ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

static int wait_for(struct pollfd *fds, u32 count, u64 wait_ns)
{
	const struct timespec wait = time_of(wait_ns);

	return ppoll(fds, count, &wait, NULL) < 0 ? -errno : 0;
}

static int wait_for_frames(struct stack *stack, struct pollfd *others, u32 count, u64 wait_ns)
{
	struct pollfd fds[STACK_MOST_PORTS + STACK_MOST_OTHERS];
	int error;

	for (u32 i = 0; i < stack->count; i++)
		/* A frozen port is readable all the time. */
		fds[i] = (struct pollfd){.fd = stack->ports[i]->is_frozen ? -1 : xsk_fd(stack->ports[i]->xsk),
					 .events = POLLIN};
	for (u32 i = 0; i < count; i++)
		fds[stack->count + i] = others[i];
	error = wait_for(fds, stack->count + count, wait_ns);
	for (u32 i = 0; i < count && !error; i++)
		others[i].revents = fds[stack->count + i].revents;
	return error;
}

static bool has_come(const struct stack *stack)
{
	for (u32 i = 0; i < stack->count; i++)
		if (!stack->ports[i]->is_frozen && xsk_waiting(stack->ports[i]->xsk))
			return true;
	return false;
}

/* Polls for a frame, for as long as busy_poll_ns() permits and nothing else is due. */
static bool look(const struct stack *stack, u64 until_ns, u64 now_ns)
{
	u64 look_ns = busy_poll_ns(&stack->busy_poll), end_ns = now_ns + look_ns;

	end_ns = until_ns < end_ns ? until_ns : end_ns;
	while (look_ns && clock_ns() < end_ns)
		if (has_come(stack))
			return true;
	return false;
}

static u64 left_ns(u64 until_ns, u64 now_ns)
{
	return until_ns > now_ns ? until_ns - now_ns : 0;
}

int wait_until(struct stack *stack, struct pollfd *others, u32 count, u64 until_ns, u64 now_ns)
{
	u64 left = left_ns(until_ns, now_ns);
	int error = 0;

	if (stack->stream_ns)
		return wait_for(others, count, left < stack->stream_ns ? left : stack->stream_ns);
	if (!look(stack, until_ns, now_ns))
		error = wait_for_frames(stack, others, count, left_ns(until_ns, clock_ns()));
	busy_poll_note(&stack->busy_poll, has_come(stack), clock_ns() - now_ns);
	return error;
}
