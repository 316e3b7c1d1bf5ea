// SPDX-License-Identifier: Apache-2.0
/*
 * Liveness and progress of the peers, and the failure of all calls.
 *
 * Every rank sends a heartbeat on each connection at least once in `heartbeat_ns`. An awaited peer is
 * declared failed
 * - after `timeout_ns` without any message: it is silent;
 * - after `timeout_ns` if it is alive and idle, but has not submitted the call: it is absent.
 * A peer that is itself waiting, in this call or in an earlier one, does not fail. If no rank makes progress
 * for twice `timeout_ns`, the rank that is furthest behind is reported (stall.h).
 */
#include <stdio.h>
#include <string.h>

#include "engine/core/core_internal.h"

#define STALLED_TIMEOUTS 2
#define TICKS            4 /* per heartbeat interval */

static bool is_awaited_by(const struct call *call, u32 connection)
{
	const struct plan *plan = call->plan;
	const struct lane *lane = &call->lanes[connection];

	return lane->is_used &&
	       ((!call->is_eager && !lane->is_ready) ||
		lane->left < plan->first_send[connection + 1] - plan->first_send[connection] ||
		lane->received < plan->first_receive[connection + 1] - plan->first_receive[connection]);
}

/* The oldest call that waits for this connection; NULL if none does. */
static const struct call *awaiting(const struct core *core, u32 connection)
{
	for (u32 i = 0; i < core->active; i++)
		if (is_awaited_by(&core->calls[core->order[i]], connection))
			return &core->calls[core->order[i]];
	return NULL;
}

bool is_awaited(const struct core *core, u32 connection)
{
	return awaiting(core, connection) != NULL;
}

static void abort_all(struct core *core)
{
	struct message message = {.kind = MESSAGE_ABORT};
	const struct core_failure *failure = &core->failure;

	message.abort.culprit = failure->culprit;
	message.abort.seen_by = failure->seen_by;
	message.abort.level = failure->level;
	message.abort.reason = failure->reason;
	memcpy(message.abort.values, failure->values, sizeof(failure->values));
	memcpy(message.abort.words, failure->words, sizeof(failure->words));
	message.abort.ours = failure->ours;
	message.abort.theirs = failure->theirs;
	/* Otherwise the ABORT would be queued behind the writes for longer than the peers' timeout. */
	core->wire->abandon(core->handle);
	for (u32 i = 0; i < core->config.connections; i++)
		if ((int)i != failure->reported_by)
			send_control(core, i, &message);
}

/* Fails all calls. With FAILURE_NONE, `core->failure` has been filled in from a peer's ABORT. */
void fail_at(struct core *core, u32 reason, int connection, u64 first, u64 second, const char *words)
{
	struct core_failure *failure = &core->failure;

	if (core->has_failed)
		return;
	core->has_failed = true;
	failure->sequence = core->active ? core->calls[core->order[0]].sequence : core->submitted;
	if (reason != FAILURE_NONE) {
		failure->reason = reason;
		if (connection >= 0)
			failure->culprit = core->connections[connection].rank;
		if (reason == FAILURE_LOCAL)
			failure->culprit = core->config.rank;
		failure->seen_by = core->config.rank;
		failure->level = connection >= 0 ? core->connections[connection].level : CORE_NO_LEVEL;
		failure->connection = connection;
		failure->reported_by = -1;
		failure->values[0] = first;
		failure->values[1] = second;
		snprintf(failure->words, sizeof(failure->words), "%s", words);
	}
	abort_all(core);
	for (u32 i = 0; i < core->active; i++)
		core->calls[core->order[i]].state = CALL_FAILED;
	core->active = 0;
}

void core_fail(struct core *core, u32 reason, const char *words)
{
	fail_at(core, reason, -1, 0, 0, words);
}

const struct core_failure *core_failure(const struct core *core)
{
	return core->has_failed ? &core->failure : NULL;
}

void core_on_closed(struct core *core, u32 connection, const char *why)
{
	struct connection *self = &core->connections[connection];

	if (self->is_closed)
		return;
	self->is_closed = true;
	snprintf(self->why, sizeof(self->why), "%s", why);
	if (!core->has_failed && is_awaited(core, connection))
		fail_at(core, FAILURE_CLOSED, connection, 0, 0, why);
}

static void beat(struct core *core, u32 connection)
{
	struct message message = {.kind = MESSAGE_HEARTBEAT};

	message.heartbeat.sequence = core->submitted;
	message.heartbeat.active = core->active;
	message.heartbeat.posted = core->connections[connection].posted;
	message.heartbeat.stalled_ns = stall_age_ns(&core->stall, core->now_ns);
	message.heartbeat.behind = stall_behind(&core->stall, position_of(core));
	send_control(core, connection, &message);
}

/* Records that the peer has submitted this call. */
void note_entry(struct core *core, u32 connection, u32 sequence)
{
	struct connection *self = &core->connections[connection];

	if ((int)(sequence - self->entered) <= 0)
		return;
	self->entered = sequence;
	self->absent_ns = 0;
}

static u32 earlier(u32 a, u32 b)
{
	return a < b ? a : b;
}

/* The first unfinished step. In each stage, sends that are ready precede segments that wait. */
static u32 first_step(const struct call *call)
{
	const struct plan *plan = call->plan;
	u32 step = STEP_DONE;

	for (u32 i = 0; i < plan->connections; i++) {
		const struct lane *lane = &call->lanes[i];
		u32 send = plan->first_send[i] + lane->left,
		    receive = plan->first_receive[i] + lane->received;

		if (send < plan->first_send[i + 1])
			step = earlier(step, 2 * plan->segment[plan->send[send]].stage +
						     (call->waits[plan->send[send]] != 0));
		if (receive < plan->first_receive[i + 1])
			step = earlier(step, 2 * plan->segment[plan->receive[receive]].stage + 1);
	}
	return step;
}

struct position position_of(const struct core *core)
{
	struct position mine = {core->submitted, STEP_DONE, core->config.rank};

	if (core->active) {
		const struct call *call = &core->calls[core->order[0]];

		mine.sequence = call->sequence;
		mine.step = first_step(call);
	}
	return mine;
}

static void judge(struct core *core, u32 connection)
{
	struct connection *self = &core->connections[connection];
	const struct call *call = awaiting(core, connection);
	u64 timeout_ns = core->config.timeout_ns;
	bool is_absent = call && !self->is_busy && (int)(self->entered - call->sequence) < 0;

	if (!is_absent)
		self->absent_ns = 0;
	else if (!self->absent_ns)
		self->absent_ns = core->now_ns;
	if (!call)
		return;
	if (self->is_closed)
		fail_at(core, FAILURE_CLOSED, connection, 0, 0, self->why);
	else if (core->now_ns - self->heard_ns >= timeout_ns)
		fail_at(core, FAILURE_SILENT, connection, core->now_ns - self->heard_ns, 0, "");
	else if (is_absent && core->now_ns - self->absent_ns >= timeout_ns)
		fail_at(core, FAILURE_ABSENT, connection, core->now_ns - self->absent_ns, self->entered, "");
}

static void judge_all(struct core *core)
{
	u64 age_ns = stall_age_ns(&core->stall, core->now_ns);
	struct position behind = stall_behind(&core->stall, position_of(core));

	if (!core->active || age_ns < STALLED_TIMEOUTS * core->config.timeout_ns)
		return;
	core->failure.culprit = behind.rank;
	fail_at(core, FAILURE_STALLED, -1, age_ns, (u64)behind.sequence << 32 | behind.step / 2, "");
}

u64 core_tick(struct core *core, u64 now_ns)
{
	core->now_ns = now_ns;
	for (u32 i = 0; i < core->config.connections && !core->has_failed; i++) {
		const struct connection *self = &core->connections[i];

		if (!self->is_closed && now_ns - self->spoke_ns >= core->config.heartbeat_ns)
			beat(core, i);
		give_credit(core, i, true);
		judge(core, i);
	}
	if (!core->has_failed)
		judge_all(core);
	return now_ns + core->config.heartbeat_ns / TICKS;
}

struct peer_delay core_delay(const struct core *core, u32 connection, u64 now_ns)
{
	const struct connection *self = &core->connections[connection];
	const struct call *call = awaiting(core, connection);
	struct peer_delay delay = {0};

	if (!call || self->is_closed)
		return delay;
	delay.sequence = call->sequence;
	delay.silent_ns = now_ns > self->heard_ns ? now_ns - self->heard_ns : 0;
	delay.absent_ns = self->absent_ns && now_ns > self->absent_ns ? now_ns - self->absent_ns : 0;
	return delay;
}

static u64 bytes_of(const struct call *call, u32 connection, u32 count)
{
	const struct plan *plan = call->plan;
	u64 elements = 0;

	for (u32 i = 0; i < count; i++)
		elements += plan->segment[plan->receive[plan->first_receive[connection] + i]].length;
	return elements * call->itemsize;
}

bool core_where(const struct core *core, u32 sequence, struct call_standing *standing)
{
	const struct call *call = &core->calls[sequence % CORE_WINDOW];
	u32 least = 0xffffffff;

	if (call->sequence != sequence || call->state == CALL_UNKNOWN || !call->lanes)
		return false;
	*standing = (struct call_standing){.sequence = sequence};
	for (u32 i = 0; i < core->config.connections; i++) {
		const struct plan *plan = call->plan;
		u32 received = call->lanes[i].received;
		u32 all = plan->first_receive[i + 1] - plan->first_receive[i];
		const struct plan_segment *next;

		standing->bytes_received += bytes_of(call, i, received);
		standing->bytes_total += bytes_of(call, i, all);
		if (received == all)
			continue;
		next = &plan->segment[plan->receive[plan->first_receive[i] + received]];
		if ((u32)next->stage << 16 >= least)
			continue;
		least = (u32)next->stage << 16 | next->thread;
		standing->is_waiting = true;
		standing->connection = i;
		standing->thread = next->thread;
		standing->stage = next->stage;
	}
	return true;
}
