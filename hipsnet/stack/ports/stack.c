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

struct endpoint *stack_endpoint(const struct stack *stack)
{
	return stack->endpoint;
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

int stack_send(struct stack *stack)
{
	for (u32 i = 0; i < stack->count; i++) {
		stack->is_busy |= port_send(stack, stack->ports[i], clock_ns());
		if (stack->ports[i]->unsent < 0)
			return stack->ports[i]->unsent;
	}
	return 0;
}

u64 stack_due_ns(const struct stack *stack)
{
	u64 due_ns = stack->is_busy ? 0 : RC_NEVER;

	for (u32 i = 0; i < stack->count; i++)
		if (stack->ports[i]->wake_ns < due_ns)
			due_ns = stack->ports[i]->wake_ns;
	return due_ns;
}

/* Lets the program hold frames for paused ports until POLL_RECENT_NS after `until_ns`: kernel/pauses.h. */
static void note_poll(struct stack *stack, u64 until_ns)
{
	stack->polled_ns = until_ns;
	for (u32 i = 0; i < stack->count; i++)
		__atomic_store_n(&stack->ports[i]->pauses->polled_ns, until_ns, __ATOMIC_RELAXED);
}

u32 stack_receive(struct stack *stack, u64 now_ns)
{
	u32 frames = 0;

	if (now_ns > stack->polled_ns + TRANSIT_LIFETIME_NS)
		transit_expire(stack);
	note_poll(stack, now_ns);
	stack->is_busy = false;
	for (u32 i = 0; i < stack->count; i++) {
		u32 count = port_receive(stack, stack->ports[i], now_ns);

		stack->is_busy |= count == PORT_BATCH;
		frames += count;
	}
	return frames;
}

void stack_note(struct stack *stack, u32 frames, u32 completions, u64 now_ns)
{
	wait_note(stack, frames, completions, now_ns);
}

/* To the program a sleep is a poll: a frame ends it. */
int stack_sleep(struct stack *stack, struct pollfd *others, u32 count, u64 until_ns)
{
	u64 now_ns = clock_ns();

	if (until_ns > now_ns + MOST_SLEEP_NS)
		until_ns = now_ns + MOST_SLEEP_NS;
	if (until_ns <= now_ns)
		return 0;
	note_poll(stack, until_ns);
	int error = wait_until(stack, others, count, until_ns, now_ns);

	note_poll(stack, clock_ns());
	return error;
}

int stack_poll(struct stack *stack, u64 timeout_ns, struct stack_completion *completions, u32 most)
{
	u64 deadline = clock_ns() + timeout_ns;

	for (bool is_first = true;; is_first = false) {
		/* Pauses are seen before anything is sent. */
		u64 now = clock_ns();
		u32 frames = stack_receive(stack, now), count = collect(stack, completions, most);

		stack_note(stack, frames, count, now);
		/* ACKs for these frames leave with the caller's answer to them: one wake-up of the peer. */
		if (count && !is_first)
			return (int)count;
		int error = stack_send(stack);

		if (count || error)
			return count ? (int)count : error;
		u64 due_ns = stack_due_ns(stack);

		if (!frames && stack_sleep(stack, NULL, 0, due_ns < deadline ? due_ns : deadline))
			return 0;
		if (clock_ns() >= deadline)
			return 0;
	}
}

void stack_flush_acks(struct stack *stack, u64 before_ns)
{
	for (u32 i = 0; i < stack->count; i++)
		for (u32 j = 0; j < stack->ports[i]->count; j++)
			rc_flush(stack->ports[i]->pairs[j].rc, before_ns);
}

static bool is_port_owing(const struct stack_port *port)
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

bool stack_is_owing(const struct stack *stack)
{
	for (u32 i = 0; i < stack->count; i++)
		if (is_port_owing(stack->ports[i]))
			return true;
	return false;
}

void stack_freeze(struct stack *stack, u32 port, bool is_frozen)
{
	stack->ports[port]->is_frozen = is_frozen;
}

const struct stack_port_counters *stack_port_counters(const struct stack *stack, u32 port)
{
	return &stack->ports[port]->counters;
}
