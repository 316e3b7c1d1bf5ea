/* Waiting. See ports/wait.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "ports/wait.h"

#define NS_PER_S      1000000000ULL
#define LOOK_NS       1000000ULL /* over which the frames are counted */
#define STREAM_FRAMES 16         /* in that time, and for each message: from here on it is a stream */
#define FRAME_BITS    (4096 * 8)
#define TOGETHER      2         /* frames of a stream that are looked at together, */
#define LEAST_NS      100000ULL /* and how long the first of them may lie */
#define MOST_NS       350000ULL

/* Of slow cables, half of what they can bring is a stream already. */
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

static int wait_for_frames(struct stack *stack, u64 left_ns)
{
	struct pollfd fds[STACK_MOST_PORTS + 1];
	const struct timespec wait = time_of(left_ns);

	for (u32 i = 0; i < stack->count; i++)
		/* What a frozen port does not take would wake us all the while. */
		fds[i] = (struct pollfd){.fd = stack->ports[i]->is_frozen ? -1 : xsk_fd(stack->ports[i]->xsk),
					 .events = POLLIN};
	fds[stack->count] = (struct pollfd){.fd = stack->watched, .events = POLLIN};
	if (ppoll(fds, stack->count + 1, &wait, NULL) < 0)
		return -errno;
	stack->is_watched_ready = fds[stack->count].revents != 0;
	return 0;
}

int wait_until(struct stack *stack, u64 until_ns, u64 now_ns)
{
	u64 left = until_ns > now_ns ? until_ns - now_ns : 0;

	if (!stack->stream_ns)
		return wait_for_frames(stack, left);
	const struct timespec wait = time_of(left < stack->stream_ns ? left : stack->stream_ns);

	return left && nanosleep(&wait, NULL) < 0 ? -errno : 0;
}
