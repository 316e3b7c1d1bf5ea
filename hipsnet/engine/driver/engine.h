/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core, its wire, and the threads that drive both.
 *
 * One thread at a time *drives*: it sleeps on the wire, takes what has come and posts what may leave.
 * Everything but the sleep happens under one lock, which also guards submissions; so a submission posts its
 * first sends itself, without waking anybody. Who may drive:
 * - a caller that waits for a call drives itself. A small call that is waited for at once has no thread
 * switch;
 * - the progress thread, which starts when a call is left under way for the first time, drives while no
 * caller does. It lets a caller have the drive at once, and takes it back when calls are left under way, or
 * after ENGINE_LINGER_NS: a program that calls in a loop is not disturbed between two calls.
 *
 * Ownership: a call's plan and buffers are the caller's until engine_wait() or engine_poll() says that it is
 * done or has failed; no thread reads or writes them after that. The core and the wire belong to the lock.
 * The failure does not change any more once it is there.
 *
 * The Python face reads this file: declarations only, and no macros but numbers.
 */
#pragma once

#include <stdbool.h>

#include "engine/core/core.h"
#include "engine/wire/wire.h"

#define ENGINE_LINGER_NS   2000000
#define ENGINE_FAREWELL_NS 1000000000

struct engine;

/* The wire stays the caller's, and must outlive the engine. NULL if memory or descriptors are short. */
struct engine *engine_open(const struct core_config *config, const struct wire_operations *operations,
			   void *wire);

/* Waits until the peers have all that was posted, at most `timeout_ns`; then ends the progress thread. */
void engine_close(struct engine *engine, u64 timeout_ns);

/* As core_submit(). `is_async`: nobody waits for it at once, so the progress thread does the work. */
u32 engine_submit(struct engine *engine, const struct plan *plan, const struct signature *signature,
		  const struct call_buffer *buffers, bool is_async);

/* Until the call is done or has failed, the time is over (then it is CALL_ACTIVE), or a signal has come. */
enum call_state engine_wait(struct engine *engine, u32 sequence, u64 timeout_ns);
enum call_state engine_poll(struct engine *engine, u32 sequence);

/* The call's place in the window is free again. */
void engine_release(struct engine *engine, u32 sequence);

/* Ends all calls, and tells the peers. */
void engine_fail(struct engine *engine, const char *words);

/* A copy of the failure; false if there is none. */
bool engine_failure(struct engine *engine, struct core_failure *failure);
bool engine_where(struct engine *engine, u32 sequence, struct call_standing *standing);
u64 engine_silent_ns(struct engine *engine, u32 connection);
