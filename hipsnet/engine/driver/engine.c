// SPDX-License-Identifier: Apache-2.0
#include "engine/driver/engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define NEVER         0xffffffffffffffffULL
#define DRAIN_STEP_NS 1000000 /* interval of checks for unacknowledged data */

struct engine {
	struct core *core;
	const struct wire_operations *operations;
	void *wire;
	int kick;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* the drive is free, a call has ended, or the engine stops */
	pthread_t thread;
	bool has_thread, stops;
	bool is_driven, thread_drives, is_kicked;
	u32 waiters;   /* callers waiting to drive */
	u64 driven_ns; /* the last time that a caller drove */
	u64 next_tick_ns;
	u64 wakes_ns; /* when the driving thread wakes up; 0 if it does not sleep */
};

static u64 clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000000000 + now.tv_nsec;
}

static u64 earlier(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* Ends the sleep of the driving thread. */
static void kick(struct engine *engine)
{
	if (!engine->is_kicked)
		eventfd_write(engine->kick, 1);
	engine->is_kicked = true;
}

/* Lets all waiting callers, and the one that drives, check for what they wait. */
static void wake(struct engine *engine)
{
	pthread_cond_broadcast(&engine->changed);
	if (engine->is_driven)
		kick(engine);
}

/* When the wire must be driven, independent of arrivals. */
static u64 due_ns(const struct engine *engine)
{
	return engine->operations->due_ns ? engine->operations->due_ns(engine->wire) : NEVER;
}

static void flush(struct engine *engine, u64 now_ns)
{
	engine->operations->flush(engine->wire, engine->core, now_ns);
	if (due_ns(engine) < engine->wakes_ns)
		kick(engine);
}

static void post(struct engine *engine, u64 now_ns)
{
	core_push(engine->core);
	flush(engine, now_ns);
}

/* Processes arrivals and timeouts, and posts. With the lock held. */
static void process(struct engine *engine)
{
	u64 now_ns = clock_now();
	u32 ended = core_ended(engine->core);

	engine->operations->progress(engine->wire, engine->core, now_ns);
	if (now_ns >= engine->next_tick_ns)
		engine->next_tick_ns = core_tick(engine->core, now_ns);
	post(engine, now_ns);
	if (engine->waiters && core_ended(engine->core) != ended)
		pthread_cond_broadcast(&engine->changed);
}

/* Sleeps once, at most until `until_ns`, then processes. Releases the lock while it sleeps. */
static void drive(struct engine *engine, u64 until_ns)
{
	u64 now_ns = clock_now();
	u64 wake_ns = earlier(until_ns, earlier(engine->next_tick_ns, due_ns(engine)));
	eventfd_t kicks;

	engine->wakes_ns = wake_ns;
	pthread_mutex_unlock(&engine->lock);
	engine->operations->wait(engine->wire, engine->kick, wake_ns > now_ns ? wake_ns - now_ns : 0);
	pthread_mutex_lock(&engine->lock);
	engine->wakes_ns = 0;
	if (engine->is_kicked)
		eventfd_read(engine->kick, &kicks);
	engine->is_kicked = false;
	process(engine);
}

static void wait_for_change(struct engine *engine, u64 until_ns)
{
	struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};

	if (until_ns == NEVER)
		pthread_cond_wait(&engine->changed, &engine->lock);
	else
		pthread_cond_timedwait(&engine->changed, &engine->lock, &until);
}

static void free_drive(struct engine *engine)
{
	engine->is_driven = engine->thread_drives = false;
	pthread_cond_broadcast(&engine->changed);
}

/* Until when nobody needs to drive: a caller drove recently and is likely to call again. */
static u64 linger_ns(const struct engine *engine)
{
	return core_active(engine->core) ? 0 : earlier(engine->driven_ns + ENGINE_LINGER_NS, due_ns(engine));
}

static void *run(void *argument)
{
	struct engine *engine = argument;

	pthread_mutex_lock(&engine->lock);
	while (!engine->stops) {
		if (engine->is_driven || engine->waiters) {
			wait_for_change(engine, NEVER);
			continue;
		}
		if (clock_now() < linger_ns(engine)) {
			wait_for_change(engine, linger_ns(engine));
			continue;
		}
		engine->is_driven = engine->thread_drives = true;
		drive(engine, NEVER);
		free_drive(engine);
	}
	pthread_mutex_unlock(&engine->lock);
	return NULL;
}

static void start_thread(struct engine *engine)
{
	if (!engine->has_thread)
		engine->has_thread = !pthread_create(&engine->thread, NULL, run, engine);
}

struct engine *engine_open(const struct core_config *config, const struct wire_operations *operations,
			   void *wire)
{
	struct engine *engine = calloc(1, sizeof(*engine));
	pthread_condattr_t monotonic;

	if (!engine)
		return NULL;
	engine->operations = operations;
	engine->wire = wire;
	engine->core = core_create(config, operations, wire);
	engine->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&engine->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&engine->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	if (!engine->core || engine->kick < 0 || !core_start(engine->core, clock_now())) {
		engine_close(engine, 0);
		return NULL;
	}
	process(engine);
	if (operations->due_ns)
		start_thread(engine);
	return engine;
}

static bool is_drained(struct engine *engine)
{
	return engine->operations->is_drained(engine->wire);
}

/* Sends the queued data, at most until `until_ns`; continues to receive meanwhile. */
static void drain(struct engine *engine, u64 until_ns)
{
	while (!is_drained(engine) && clock_now() < until_ns) {
		u64 step_ns = clock_now() + DRAIN_STEP_NS;

		drive(engine, step_ns < until_ns ? step_ns : until_ns);
	}
}

void engine_close(struct engine *engine, u64 timeout_ns)
{
	pthread_mutex_lock(&engine->lock);
	engine->stops = true;
	pthread_cond_broadcast(&engine->changed);
	if (engine->thread_drives)
		kick(engine);
	pthread_mutex_unlock(&engine->lock);
	if (engine->has_thread)
		pthread_join(engine->thread, NULL);
	pthread_mutex_lock(&engine->lock);
	if (engine->core)
		drain(engine, clock_now() + timeout_ns);
	pthread_mutex_unlock(&engine->lock);
	if (engine->core)
		core_destroy(engine->core);
	if (engine->kick >= 0)
		close(engine->kick);
	pthread_cond_destroy(&engine->changed);
	pthread_mutex_destroy(&engine->lock);
	free(engine);
}

u32 engine_submit(struct engine *engine, const struct plan *plan, const struct signature *signature,
		  const struct call_buffer *buffers, u32 count, bool is_async)
{
	u64 now_ns = clock_now();
	u32 sequence, ended;

	pthread_mutex_lock(&engine->lock);
	ended = core_ended(engine->core);
	sequence = core_submit(engine->core, plan, signature, buffers, count, now_ns);
	if (sequence)
		post(engine, now_ns);
	if (core_ended(engine->core) != ended)
		wake(engine);
	if (is_async) {
		start_thread(engine);
		if (!engine->is_driven)
			pthread_cond_broadcast(&engine->changed);
	}
	pthread_mutex_unlock(&engine->lock);
	return sequence;
}

/* What a caller waits for: the end of a call, or (sequence 0) of any call after `ended` calls. */
struct goal {
	u32 sequence, ended;
};

static bool is_reached(const struct engine *engine, struct goal goal)
{
	if (!goal.sequence)
		return core_ended(engine->core) != goal.ended;
	return core_state(engine->core, goal.sequence) != CALL_ACTIVE;
}

/* Waits for the drive; the progress thread yields it at once. False if the goal is reached or the time is
 * over.
 */
static bool take_drive(struct engine *engine, struct goal goal, u64 until_ns)
{
	engine->waiters++;
	while (engine->is_driven && !is_reached(engine, goal) && clock_now() < until_ns) {
		if (engine->thread_drives)
			kick(engine);
		wait_for_change(engine, until_ns);
	}
	engine->waiters--;
	if (engine->is_driven || is_reached(engine, goal)) {
		/* The progress thread may have left the drive to this waiter. */
		pthread_cond_broadcast(&engine->changed);
		return false;
	}
	return engine->is_driven = true;
}

static void wait_for(struct engine *engine, struct goal goal, u64 timeout_ns)
{
	u64 now_ns = clock_now();
	u64 until_ns = timeout_ns > NEVER - now_ns ? NEVER : now_ns + timeout_ns;

	if (take_drive(engine, goal, until_ns)) {
		while (!is_reached(engine, goal) && clock_now() < until_ns)
			drive(engine, until_ns);
		engine->driven_ns = clock_now();
		free_drive(engine);
	}
	/* Calls and an ABORT that is not sent yet continue after the caller returns. */
	if (core_active(engine->core) || (core_failure(engine->core) && !is_drained(engine)))
		start_thread(engine);
}

enum call_state engine_wait(struct engine *engine, u32 sequence, u64 timeout_ns)
{
	enum call_state state;

	pthread_mutex_lock(&engine->lock);
	wait_for(engine, (struct goal){.sequence = sequence}, timeout_ns);
	state = core_state(engine->core, sequence);
	pthread_mutex_unlock(&engine->lock);
	return state;
}

u32 engine_wait_any(struct engine *engine, u32 ended, u64 timeout_ns)
{
	pthread_mutex_lock(&engine->lock);
	wait_for(engine, (struct goal){.ended = ended}, timeout_ns);
	ended = core_ended(engine->core);
	pthread_mutex_unlock(&engine->lock);
	return ended;
}

enum call_state engine_poll(struct engine *engine, u32 sequence)
{
	enum call_state state;

	pthread_mutex_lock(&engine->lock);
	state = core_state(engine->core, sequence);
	pthread_mutex_unlock(&engine->lock);
	return state;
}

void engine_release(struct engine *engine, u32 sequence)
{
	pthread_mutex_lock(&engine->lock);
	core_release(engine->core, sequence);
	pthread_mutex_unlock(&engine->lock);
}

void engine_fail(struct engine *engine, const char *words)
{
	pthread_mutex_lock(&engine->lock);
	core_fail(engine->core, FAILURE_LOCAL, words);
	flush(engine, clock_now());
	wake(engine);
	pthread_mutex_unlock(&engine->lock);
}

bool engine_failure(struct engine *engine, struct core_failure *failure)
{
	const struct core_failure *found;

	pthread_mutex_lock(&engine->lock);
	found = core_failure(engine->core);
	if (found)
		*failure = *found;
	pthread_mutex_unlock(&engine->lock);
	return found;
}

bool engine_where(struct engine *engine, u32 sequence, struct call_standing *standing)
{
	bool is_known;

	pthread_mutex_lock(&engine->lock);
	is_known = core_where(engine->core, sequence, standing);
	pthread_mutex_unlock(&engine->lock);
	return is_known;
}

struct peer_delay engine_delay(struct engine *engine, u32 connection)
{
	struct peer_delay delay;

	pthread_mutex_lock(&engine->lock);
	delay = core_delay(engine->core, connection, clock_now());
	pthread_mutex_unlock(&engine->lock);
	return delay;
}
