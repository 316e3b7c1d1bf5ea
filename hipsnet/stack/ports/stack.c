// SPDX-License-Identifier: Apache-2.0
/* See ports/stack.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ports/clock.h"
#include "ports/port.h"
#include "ports/storm.h"
#include "ports/transit.h"
#include "ports/wait.h"

#define PS_PER_S      1000000000000ULL
#define MOST_SLEEP_NS 100000000ULL /* a process that is stopped in its sleep counts as polling until then */

_Static_assert(sizeof(struct pfc_counters) == PAUSE_COUNTERS * sizeof(u64), "as others read them");

/* The size of the kernel's array for all ports, in whole pages. */
static size_t pauses_bytes(u32 ports)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (ports * sizeof(struct pauses) + page - 1) / page * page;
}

struct pauses *stack_map_pauses(int map, u32 ports)
{
	void *memory = mmap(NULL, pauses_bytes(ports), PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void stack_unmap_pauses(struct pauses *pauses, u32 ports)
{
	if (pauses)
		munmap(pauses, pauses_bytes(ports));
}

struct pauses *stack_pauses_of(struct pauses *pauses, u32 port)
{
	return pauses + port;
}

struct stack *stack_open(struct endpoint *endpoint)
{
	struct stack *stack = calloc(1, sizeof(*stack));

	if (!stack)
		return NULL;
	stack->endpoint = endpoint;
	stack->watched = STACK_NO_WATCH;
	stack->held = calloc(STACK_TRANSIT_FRAMES, sizeof(*stack->held));
	if (!stack->held) {
		free(stack);
		return NULL;
	}
	for (u32 i = 0; i < STACK_TRANSIT_FRAMES; i++)
		stack->held[i].next = i + 1 < STACK_TRANSIT_FRAMES ? i + 1 : TRANSIT_NONE;
	return stack;
}

void stack_close(struct stack *stack)
{
	if (!stack)
		return;
	for (u32 i = 0; i < stack->count; i++) {
		stack->ports[i]->pauses->quantum_ps = 0;
		free(stack->ports[i]->pairs);
		free(stack->ports[i]);
	}
	free(stack->held);
	free(stack);
}

static void begin_pauses(struct stack_port *port)
{
	for (u32 priority = 0; priority < PRIORITIES; priority++)
		storm_over(port->pauses, priority, clock_ns()); /* left by an earlier process */
	memset(port->pauses->until_ns, 0, sizeof(port->pauses->until_ns));
	memset(port->pauses->buffered, 0, sizeof(port->pauses->buffered));
	port->pauses->polled_ns = clock_ns();
	port->pauses->quantum_ps = PFC_QUANTUM_BITS * PS_PER_S / port->pfc.rate_bps;
}

int stack_add_port(struct stack *stack, struct xsk *xsk, const struct stack_port_config *config,
		   struct pauses *pauses)
{
	struct stack_port *port = stack->count < STACK_MOST_PORTS ? calloc(1, sizeof(*port)) : NULL;

	if (!port)
		return -1;
	port->xsk = xsk;
	port->config = *config;
	port->watchdog = (struct watchdog){config->detect_ns, config->restore_ns,
					   (enum watchdog_action)config->storm_action};
	pacer_init(&port->pacer, config->rate_bps, config->burst_ns);
	port->pauses = pauses ? pauses : &port->own;
	pfc_init(&port->pfc, config->rate_bps, (struct pfc_counters *)port->pauses->counters);
	begin_pauses(port);
	stack->polled_ns = port->pauses->polled_ns;
	xsk_refill(xsk);
	stack->ports[stack->count] = port;
	return (int)stack->count++;
}

bool stack_add_pair(struct stack *stack, u32 number, struct rc *rc, u32 tag, u8 priority)
{
	struct stack_port *port = stack->ports[number];

	if (port->count == port->room) {
		u32 room = port->room ? 2 * port->room : 16;
		struct stack_pair *pairs = reallocarray(port->pairs, room, sizeof(*pairs));

		if (!pairs)
			return false;
		port->pairs = pairs;
		port->room = room;
	}
	port->pairs[port->count++] = (struct stack_pair){rc, tag, priority};
	return true;
}

void stack_watch(struct stack *stack, int fd)
{
	stack->watched = fd;
}

bool stack_is_watched_ready(const struct stack *stack)
{
	return stack->is_watched_ready;
}

static u32 collect_pair(const struct stack_pair *pair, struct stack_completion *completions, u32 most)
{
	struct rc_completion found;
	u32 count = 0;

	while (count < most && rc_poll_completion(pair->rc, &found))
		completions[count++] = (struct stack_completion){
			.id = found.id,
			.tag = pair->tag,
			.kind = found.kind,
			.status = found.status,
			.bytes = found.bytes,
			.immediate = found.immediate,
			.has_immediate = found.has_immediate,
		};
	return count;
}

static u32 collect(struct stack *stack, struct stack_completion *completions, u32 most)
{
	u32 count = 0;

	for (u32 i = 0; i < stack->count; i++)
		for (u32 j = 0; j < stack->ports[i]->count; j++)
			count += collect_pair(&stack->ports[i]->pairs[j], completions + count, most - count);
	return count;
}

/* Whether there was anything to send; -errno if a port is gone. */
static int send_all(struct stack *stack)
{
	bool was_busy = false;

	for (u32 i = 0; i < stack->count; i++) {
		was_busy |= port_send(stack, stack->ports[i], clock_ns());
		if (stack->ports[i]->unsent < 0)
			return stack->ports[i]->unsent;
	}
	return was_busy;
}

static u32 receive_all(struct stack *stack, u64 now)
{
	u32 frames = 0;

	for (u32 i = 0; i < stack->count; i++)
		frames += port_receive(stack, stack->ports[i], now);
	return frames;
}

static u64 wake_ns(const struct stack *stack, u64 latest_ns)
{
	for (u32 i = 0; i < stack->count; i++)
		if (stack->ports[i]->wake_ns < latest_ns)
			latest_ns = stack->ports[i]->wake_ns;
	return latest_ns;
}

/* Lets the program hold frames for paused ports until POLL_RECENT_NS after `until_ns`: kernel/pauses.h. */
static void note_poll(struct stack *stack, u64 until_ns)
{
	stack->polled_ns = until_ns;
	for (u32 i = 0; i < stack->count; i++)
		__atomic_store_n(&stack->ports[i]->pauses->polled_ns, until_ns, __ATOMIC_RELAXED);
}

/* The caller may compute from now on: the program holds no more frames before the next poll. */
static void note_leave(struct stack *stack)
{
	for (u32 i = 0; i < stack->count; i++)
		__atomic_store_n(&stack->ports[i]->pauses->polled_ns, 0, __ATOMIC_RELAXED);
}

/* Sleeps until there may be something to do. To the program it is a poll: a frame ends the sleep. */
static int sleep_until(struct stack *stack, u64 latest_ns, u64 now_ns)
{
	u64 until_ns = wake_ns(stack, latest_ns);

	if (until_ns > now_ns + MOST_SLEEP_NS)
		until_ns = now_ns + MOST_SLEEP_NS;
	if (until_ns > now_ns)
		note_poll(stack, until_ns);
	int error = wait_until(stack, until_ns, now_ns);

	note_poll(stack, clock_ns());
	return error;
}

int stack_poll(struct stack *stack, u64 timeout_ns, struct stack_completion *completions, u32 most)
{
	u64 began = clock_ns(), deadline = began + timeout_ns;

	stack->is_watched_ready = false;
	if (began > stack->polled_ns + TRANSIT_LIFETIME_NS)
		transit_expire(stack);
	for (bool is_first = true;; is_first = false) {
		/* Pauses are seen before anything is sent. */
		u64 now = clock_ns();

		note_poll(stack, now);
		u32 frames = receive_all(stack, now), count = collect(stack, completions, most);

		wait_note(stack, frames, count, now);
		/* ACKs for these frames leave with the caller's answer to them: one wake-up of the peer. */
		if (count && !is_first)
			return (int)count;
		int sent = send_all(stack);

		if (count || sent < 0)
			return count ? (int)count : sent;
		if (!sent && !frames && sleep_until(stack, deadline, clock_ns()))
			return 0;
		if (stack->is_watched_ready || clock_ns() >= deadline)
			return 0;
	}
}

static void flush_pairs(struct stack *stack)
{
	for (u32 i = 0; i < stack->count; i++)
		for (u32 j = 0; j < stack->ports[i]->count; j++)
			rc_flush(stack->ports[i]->pairs[j].rc);
}

static bool is_owing(const struct stack_port *port)
{
	if (port->unsent > 0)
		return true;
	for (u32 priority = 0; priority < PRIORITIES; priority++)
		if (port->transit[priority].count)
			return true;
	for (u32 i = 0; i < port->count; i++)
		if (rc_is_owing(port->pairs[i].rc))
			return true;
	return false;
}

static int flush_until(struct stack *stack, u64 deadline)
{
	bool owing = true;

	while (owing) {
		note_poll(stack, clock_ns());
		receive_all(stack, stack->polled_ns);
		flush_pairs(stack);
		int sent = send_all(stack);
		u64 now = clock_ns();

		owing = false;
		for (u32 i = 0; i < stack->count; i++)
			owing |= is_owing(stack->ports[i]);
		if (sent < 0 || now >= deadline)
			return sent < 0 ? sent : 0;
		if (owing && !sent)
			wait_briefly(wake_ns(stack, deadline), now);
	}
	return 0;
}

int stack_flush(struct stack *stack, u64 timeout_ns)
{
	int error = flush_until(stack, clock_ns() + timeout_ns);

	note_leave(stack);
	return error;
}

bool stack_is_idle(struct stack *stack)
{
	for (u32 i = 0; i < stack->count; i++) {
		struct stack_port *port = stack->ports[i];

		if (port->unsent)
			return false;
		for (u32 j = 0; j < port->count; j++)
			if (rc_unacknowledged(port->pairs[j].rc) || !rc_next_deadline(port->pairs[j].rc))
				return false;
	}
	return true;
}

void stack_freeze(struct stack *stack, u32 port, bool is_frozen)
{
	stack->ports[port]->is_frozen = is_frozen;
}

const struct stack_port_counters *stack_port_counters(const struct stack *stack, u32 port)
{
	return &stack->ports[port]->counters;
}
