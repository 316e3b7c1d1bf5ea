// SPDX-License-Identifier: Apache-2.0
/*
 * Two ranks in one process, for the thread sanitizer: each submits calls in one thread, waits for them in two
 * others and in the first, asynchronously and not, while its progress thread runs.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/driver/engine.h"
#include "engine/wire/tcp.h"
#include "engine/wire/verbs.h"
#include "verbs_rig.h"
#include "xdp_sockets.h"

#define CALLS   400
#define LONGEST 3000
#define LINE    8 /* calls that are submitted and not waited for yet */

/* Each rank sends its whole vector and adds the other's. */
static const struct plan_segment segments[2] = {{.sends = true, .reduces = true}, {.reduces = true}};
static const u32 waits[2] = {0, 1}, first_release[3] = {0, 1, 1}, release[1] = {1};
static const u32 first_of_one[2] = {0, 1}, sent[1] = {0}, received[1] = {1};

struct call_of_rank {
	struct plan plan;
	struct plan_segment segments[2];
	u32 sequence;
	int vector[LONGEST];
};

struct rank {
	struct engine *engine;
	u32 number;
	struct call_of_rank calls[CALLS];
	pthread_mutex_t lock;
	pthread_cond_t changed;
	u32 submitted, taken, finished;
	u32 wrong;
};

static u32 length_of(u32 call)
{
	return call % 3 ? 1 + call : LONGEST - call;
}

static void submit(struct rank *rank, u32 number)
{
	struct call_of_rank *call = &rank->calls[number];
	u32 length = length_of(number);
	struct signature signature = {.count = length, .dtype = 4};
	struct call_buffer buffer = {call->vector, 0, length, true};

	for (u32 i = 0; i < 2; i++) {
		call->segments[i] = segments[i];
		call->segments[i].length = length;
	}
	call->plan = (struct plan){length,
				   2,
				   1,
				   length,
				   call->segments,
				   waits,
				   first_release,
				   release,
				   first_of_one,
				   sent,
				   first_of_one,
				   received};
	for (u32 i = 0; i < length; i++)
		call->vector[i] = rank->number + i;
	while (!(call->sequence =
			 engine_submit(rank->engine, &call->plan, &signature, &buffer, 1, number % 2)))
		usleep(100); /* a waiter that is slow still has a call of the window */
}

static void finish(struct rank *rank, u32 number)
{
	struct call_of_rank *call = &rank->calls[number];
	bool is_right = engine_wait(rank->engine, call->sequence, ~0ULL) == CALL_DONE;

	for (u32 i = 0; is_right && i < length_of(number); i++)
		is_right = call->vector[i] == (int)(1 + 2 * i);
	engine_release(rank->engine, call->sequence);
	pthread_mutex_lock(&rank->lock);
	rank->wrong += !is_right;
	rank->finished++;
	pthread_cond_broadcast(&rank->changed);
	pthread_mutex_unlock(&rank->lock);
}

static void *wait_for_calls(void *argument)
{
	struct rank *rank = argument;

	pthread_mutex_lock(&rank->lock);
	while (rank->taken < CALLS) {
		if (rank->taken == rank->submitted) {
			pthread_cond_wait(&rank->changed, &rank->lock);
			continue;
		}
		u32 number = rank->taken++;

		pthread_mutex_unlock(&rank->lock);
		finish(rank, number);
		pthread_mutex_lock(&rank->lock);
	}
	pthread_cond_broadcast(&rank->changed);
	pthread_mutex_unlock(&rank->lock);
	return NULL;
}

static void *run(void *argument)
{
	struct rank *rank = argument;
	pthread_t waiters[2];

	for (u32 i = 0; i < 2; i++)
		pthread_create(&waiters[i], NULL, wait_for_calls, rank);
	for (u32 number = 0; number < CALLS; number++) {
		struct core_failure failure;

		pthread_mutex_lock(&rank->lock);
		while (rank->submitted - rank->finished >= LINE)
			pthread_cond_wait(&rank->changed, &rank->lock);
		pthread_mutex_unlock(&rank->lock);
		submit(rank, number);
		if (engine_failure(rank->engine, &failure))
			rank->wrong++;
		pthread_mutex_lock(&rank->lock);
		rank->submitted++;
		pthread_cond_broadcast(&rank->changed);
		pthread_mutex_unlock(&rank->lock);
	}
	for (u32 i = 0; i < 2; i++)
		pthread_join(waiters[i], NULL);
	return NULL;
}

#ifdef VERBS /* the wires of both ranks: over devices in memory, AF_XDP sockets, or TCP sockets */

static struct rig *rig;

static const struct wire_operations *open_wires(void **wires)
{
	static const u32 links[2][2] = {{1, 0}, {0, 0}};

	rig = rig_create(8, 1 << 12, 1 << 18, 60000000000, "gid", 1);
	for (u32 i = 0; i < 2; i++)
		wires[i] = rig_add(rig, i, 1, links[i], 1);
	rig_start(rig);
	return verbs_wire_operations();
}

static void close_wires(void **wires)
{
	for (u32 i = 0; i < 2; i++)
		verbs_wire_close(wires[i]);
	rig_destroy(rig);
}

#elif defined(XDP)

static const struct wire_operations *open_wires(void **wires)
{
	return xdp_open_wires(wires);
}

static void close_wires(void **wires)
{
	xdp_close_wires(wires);
}

#else

static const struct wire_operations *open_wires(void **wires)
{
	int sockets[2];

	socketpair(AF_UNIX, SOCK_STREAM, 0, sockets);
	for (u32 i = 0; i < 2; i++)
		wires[i] = tcp_wire_open(&sockets[i], 1, 2048);
	return tcp_wire_operations();
}

static void close_wires(void **wires)
{
	for (u32 i = 0; i < 2; i++)
		tcp_wire_close(wires[i]);
}

#endif

int main(void)
{
	static const u32 ranks[2] = {0, 1}, level = 0;
	struct rank *both = calloc(2, sizeof(*both));
	const struct wire_operations *operations;
	void *wires[2];
	pthread_t threads[2];

	operations = open_wires(wires);
	for (u32 i = 0; i < 2; i++) {
		struct core_config config = {.rank = i,
					     .ranks = 2,
					     .connections = 1,
					     .peer_rank = &ranks[1 - i],
					     .peer_level = &level,
					     .slots = 4,
					     .slot_bytes = 1 << 16,
					     .eager_slots = 4,
					     .eager_bytes = 512,
					     .reserve = 1,
					     .warn_ns = 30000000000,
					     .timeout_ns = 60000000000,
					     .heartbeat_ns = 1000000};

		both[i].number = i;
		both[i].engine = engine_open(&config, operations, wires[i]);
		pthread_mutex_init(&both[i].lock, NULL);
		pthread_cond_init(&both[i].changed, NULL);
	}
	for (u32 i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, run, &both[i]);
	for (u32 i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (u32 i = 0; i < 2; i++)
		engine_close(both[i].engine, 1000000000);
	close_wires(wires);
	printf("%u wrong\n", both[0].wrong + both[1].wrong);
	free(both);
	return 0;
}
