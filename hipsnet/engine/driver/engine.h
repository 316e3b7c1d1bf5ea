/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core, its wire, and the threads that drive both.
 *
 * One thread at a time *drives*: it sleeps on the wire, processes arrivals and posts ready segments.
 * Everything but the sleep happens under one lock, which also guards submissions; so a submission posts its
 * first sends itself, without a thread switch. The driving thread is:
 * - a caller that waits for a call: a small call with an immediate wait needs no thread switch;
 * - otherwise the progress thread. It starts when a call is first left under way without a waiting caller, or
 *   with the engine if the wire must be driven at all times. It yields the drive to a caller at once, and
 *   takes it back when calls are left under way, when the wire has something to do, or after
 * ENGINE_LINGER_NS: so it does not interfere with a program that calls in a loop.
 *
 * Ownership: the plan and the buffers of a call must stay valid until engine_wait() or engine_poll() reports
 * that the call is done or has failed; no thread accesses them after that. The lock guards the core and the
 * wire. A recorded failure does not change.
 *
 * cffi parses this file: declarations and numeric macros only.
 */
#pragma once

#include <stdbool.h>

#include "engine/core/core.h"
#include "engine/wire/wire.h"

#define ENGINE_LINGER_NS 2000000

struct engine;

/* The caller owns the wire, which must outlive the engine. NULL if memory or descriptors are short. */
struct engine *engine_open(const struct core_config *config, const struct wire_operations *operations,
			   void *wire);

/* Ends the progress thread, then waits at most `timeout_ns` until the peers have received all posted data. */
void engine_close(struct engine *engine, u64 timeout_ns);

/* As core_submit(). `is_async`: no caller waits for the call immediately, so the progress thread drives. */
u32 engine_submit(struct engine *engine, const struct plan *plan, const struct signature *signature,
		  const struct call_buffer *buffers, u32 count, bool is_async);

/* Waits until the call is done or has failed; returns CALL_ACTIVE if the timeout expires first. */
enum call_state engine_wait(struct engine *engine, u32 sequence, u64 timeout_ns);
enum call_state engine_poll(struct engine *engine, u32 sequence);

/* Waits until more or fewer than `ended` calls have ended since the start, and returns their number. */
u32 engine_wait_any(struct engine *engine, u32 ended, u64 timeout_ns);

/* Frees the call's place in the window. */
void engine_release(struct engine *engine, u32 sequence);

/* Fails all calls, and sends ABORT to the peers. */
void engine_fail(struct engine *engine, const char *words);

/* A copy of the failure; false if there is none. */
bool engine_failure(struct engine *engine, struct core_failure *failure);
bool engine_where(struct engine *engine, u32 sequence, struct call_standing *standing);
struct peer_delay engine_delay(struct engine *engine, u32 connection);
