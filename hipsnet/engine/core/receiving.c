// SPDX-License-Identifier: Apache-2.0
/* Received data of calls under way, credits, and protocol errors. */
#include <stdio.h>
#include <string.h>

#include "engine/core/core_internal.h"
#include "engine/reduce/reduce.h"

void protocol_error(struct core *core, u32 connection, const char *words)
{
	fail_at(core, FAILURE_PROTOCOL, connection, 0, 0, words);
}

static enum reduce_operation reduction_of(const struct call *call)
{
	return call->signature.operation == CALL_MEAN ? REDUCE_SUM
						      : (enum reduce_operation)call->signature.operation;
}

static u8 *data_of(const struct core *core, const struct call *call, u32 segment)
{
	const struct connection *connection = &core->connections[call->plan->segment[segment].connection];
	struct held held = call->held[segment];

	return held.place == PLACE_EAGER ? connection->eager[held.slot].payload
					 : connection->staging + (u64)held.slot * core->config.slot_bytes;
}

static void free_slot(struct core *core, struct call *call, u32 segment)
{
	struct connection *connection = &core->connections[call->plan->segment[segment].connection];
	struct held held = call->held[segment];

	if (held.place == PLACE_EAGER) {
		connection->eager[held.slot].is_used = false;
		connection->eager_emptied++;
	} else {
		connection->slots_to_credit |= 1ULL << held.slot;
	}
	core->may_push = true; /* a credit may be due */
}

/* Combines a segment of a lower rank with those before it, and the last one with this rank's elements. */
static void fold(struct core *core, struct call *call, u32 segment)
{
	const struct plan_segment *at = &call->plan->segment[segment];
	u8 *root = data_of(core, call, at->root), *target = address_of(call, at);

	if (at->fold == FOLD_ROOT)
		return;
	if (at->root != segment) {
		reduce(call->signature.dtype, reduction_of(call), root, data_of(core, call, segment),
		       at->length);
		free_slot(core, call, segment);
	}
	if (at->fold == FOLD_NEXT)
		return;
	reduce(call->signature.dtype, reduction_of(call), root, target, at->length);
	memcpy(target, root, (u64)at->length * call->itemsize);
	free_slot(core, call, at->root);
}

/* Combines or copies a received segment without open dependencies, and frees its slot. */
void apply(struct core *core, struct call *call, u32 segment)
{
	const struct plan_segment *at = &call->plan->segment[segment];
	void *target = address_of(call, at);

	if (call->held[segment].place == PLACE_HERE)
		return;
	if (at->fold != FOLD_NONE) {
		fold(core, call, segment);
		return;
	}
	if (at->reduces)
		reduce(call->signature.dtype, reduction_of(call), target, data_of(core, call, segment),
		       at->length);
	else
		memcpy(target, data_of(core, call, segment), (u64)at->length * call->itemsize);
	free_slot(core, call, segment);
}

/* The next segment of a connection has arrived: completes it now or after its dependencies. */
void arrive(struct core *core, struct call *call, u32 connection, u32 number, struct held held)
{
	const struct plan *plan = call->plan;
	struct lane *lane = &call->lanes[connection];
	u32 segment;

	if (number != lane->received ||
	    plan->first_receive[connection] + number >= plan->first_receive[connection + 1]) {
		protocol_error(core, connection, "it sent a segment out of turn");
		return;
	}
	segment = plan->receive[plan->first_receive[connection] + lane->received++];
	if (held.place == PLACE_SLOT && !plan->segment[segment].reduces) {
		protocol_error(core, connection, "it wrote a finished piece into a staging slot");
		return;
	}
	if (held.place == PLACE_HERE && plan->segment[segment].reduces) {
		protocol_error(core, connection, "it overwrote a range that it should have added to");
		return;
	}
	call->held[segment] = held;
	if (!call->waits[segment])
		complete_segment(core, call, segment);
}

/* Different signatures fail all calls: the segments sent so far cannot be assigned to a call. */
bool agrees(struct core *core, struct call *call, u32 connection, const struct signature *other)
{
	if (signature_equals(&call->signature, other))
		return true;
	core->failure.ours = call->signature;
	core->failure.theirs = *other;
	fail_at(core, FAILURE_MISMATCH, connection, call->sequence, 0, "");
	return false;
}

void on_ready(struct core *core, struct call *call, u32 connection, const struct message_ready *ready)
{
	struct lane *lane = &call->lanes[connection];

	if (!agrees(core, call, connection, &ready->signature))
		return;
	if (call->is_eager || !lane->is_used || lane->is_ready || ready->tag != lane->tag) {
		protocol_error(core, connection, "it sent READY twice, or for a call that does not use it");
		return;
	}
	lane->is_ready = true;
	call->readies_left--;
	stall_progressed(&core->stall, core->now_ns);
	lane->peer_buffers = ready->buffers;
	memcpy(&call->peer_buffers[connection * MESSAGE_BUFFERS], ready->buffer, sizeof(ready->buffer));
	core->may_push = true;
}

/* Whether this rank has not submitted this call of the peer yet; sequences wrap around. */
static bool is_ahead(const struct core *core, u32 sequence)
{
	return sequence - core->submitted - 1 < 1U << 31;
}

static void take_ready(struct core *core, u32 connection, const struct message_ready *ready)
{
	struct call *call = find_call(core, ready->sequence);

	note_entry(core, connection, ready->sequence);
	if (call) {
		on_ready(core, call, connection, ready);
		if (!core->has_failed)
			finish_if_done(core, call);
	} else if (is_ahead(core, ready->sequence)) {
		keep_ready(core, connection, ready);
	} else {
		protocol_error(core, connection, "it announced a call that has ended");
	}
}

static int free_eager_slot(const struct core *core, const struct connection *connection)
{
	for (u32 i = 0; i < core->config.eager_slots; i++)
		if (!connection->eager[i].is_used)
			return i;
	return -1;
}

/* Keeps a message until its turn in a call under way, or (is_early) until this rank submits the call. */
static int keep_eager(struct core *core, u32 connection, const struct message_data *data, bool is_early)
{
	struct connection *self = &core->connections[connection];
	int slot = free_eager_slot(core, self);
	struct eager_slot *kept;

	if (slot < 0 || data->bytes > core->config.eager_bytes) {
		protocol_error(core, connection, "it sent more small messages than it has credits for");
		return -1;
	}
	kept = &self->eager[slot];
	kept->is_used = true;
	kept->is_early = is_early;
	kept->sequence = data->sequence;
	kept->number = data->number;
	kept->bytes = data->bytes;
	kept->signature = data->signature;
	memcpy(kept->payload, data->payload, data->bytes);
	return slot;
}

/* Whether a message matches the schedule's segment of this number. */
bool fits(struct core *core, struct call *call, u32 connection, u32 number, u32 bytes)
{
	const struct plan *plan = call->plan;
	u32 first = plan->first_receive[connection], count = plan->first_receive[connection + 1] - first;

	if (call->is_eager && number < count &&
	    plan->segment[plan->receive[first + number]].length * call->itemsize == bytes)
		return true;
	protocol_error(core, connection, "it sent a segment of another length than the schedule's");
	return false;
}

static void take_data(struct core *core, u32 connection, const struct message_data *data)
{
	struct call *call = find_call(core, data->sequence);
	int slot;

	core->connections[connection].arrived++;
	note_entry(core, connection, data->sequence);
	if (!call) {
		if (is_ahead(core, data->sequence))
			keep_eager(core, connection, data, true);
		else
			protocol_error(core, connection, "it sent data for a call that has ended");
		return;
	}
	if (!agrees(core, call, connection, &data->signature) ||
	    !fits(core, call, connection, data->number, data->bytes))
		return;
	slot = keep_eager(core, connection, data, false);
	if (slot < 0)
		return;
	arrive(core, call, connection, data->number, (struct held){PLACE_EAGER, slot});
	if (!core->has_failed)
		finish_if_done(core, call);
}

static void take_hello(struct core *core, u32 connection, const struct message_hello *hello)
{
	struct connection *self = &core->connections[connection];
	const struct core_config *config = &core->config;

	if (self->has_greeted || hello->slots != config->slots || hello->slot_bytes != config->slot_bytes ||
	    hello->eager_slots != config->eager_slots || hello->eager_bytes != config->eager_bytes) {
		protocol_error(core, connection, "its slots differ from ours; is its version the same?");
		return;
	}
	self->has_greeted = true;
	self->staging_key = hello->key;
	self->free_slots = (1ULL << config->slots) - 1;
	core->may_push = true;
}

static void take_credit(struct core *core, u32 connection, u32 eager_emptied, u64 slots)
{
	struct connection *self = &core->connections[connection];
	u64 all = (1ULL << core->config.slots) - 1;

	if (eager_emptied - self->eager_emptied_there > self->eager_posted - self->eager_emptied_there ||
	    slots & ~all || slots & self->free_slots) {
		protocol_error(core, connection, "it gave credit for slots that hold nothing");
		return;
	}
	self->eager_emptied_there = eager_emptied;
	self->free_slots |= slots;
	core->may_push = true;
}

/* Heartbeats and segments arrive in order: a segment that is missing now has been lost. */
static void take_heartbeat(struct core *core, u32 connection, const struct message_heartbeat *heartbeat)
{
	struct connection *self = &core->connections[connection];

	if (heartbeat->posted != self->arrived) {
		char words[120];

		snprintf(words, sizeof(words), "it has sent %u segments, of which %u arrived",
			 heartbeat->posted, self->arrived);
		protocol_error(core, connection, words);
		return;
	}
	if (heartbeat->behind.rank >= core->config.ranks) {
		protocol_error(core, connection, "it reported the progress of a rank that does not exist");
		return;
	}
	note_entry(core, connection, heartbeat->sequence);
	self->is_busy = heartbeat->active != 0;
	stall_heard(&core->stall, core->now_ns, heartbeat->stalled_ns, heartbeat->behind, position_of(core));
}

static bool is_failure(const struct core *core, const struct message_abort *abort)
{
	int ranks = core->config.ranks;

	return abort->reason > FAILURE_NONE && abort->reason < FAILURE_REASONS && abort->culprit >= -1 &&
	       abort->culprit < ranks && abort->seen_by < core->config.ranks;
}

static void take_abort(struct core *core, u32 connection, const struct message_abort *abort)
{
	struct core_failure *failure = &core->failure;

	if (!is_failure(core, abort)) {
		protocol_error(core, connection,
			       "it reported a failure of a kind or rank that does not exist");
		return;
	}
	failure->reason = abort->reason;
	failure->culprit = abort->culprit;
	failure->seen_by = abort->seen_by;
	failure->level = abort->level;
	memcpy(failure->values, abort->values, sizeof(failure->values));
	memcpy(failure->words, abort->words, sizeof(failure->words));
	failure->ours = abort->ours;
	failure->theirs = abort->theirs;
	failure->reported_by = connection;
	failure->connection = -1;
	fail_at(core, FAILURE_NONE, connection, 0, 0, NULL);
}

void core_on_message(struct core *core, u32 connection, const u8 *bytes, u32 length, u64 now_ns)
{
	struct message message;

	core->now_ns = now_ns;
	core->connections[connection].heard_ns = now_ns;
	if (core->has_failed)
		return;
	if (!message_parse(&message, bytes, length)) {
		char words[80];

		snprintf(words, sizeof(words), "it sent a malformed control message of %u bytes", length);
		protocol_error(core, connection, words);
		return;
	}
	switch (message.kind) {
	case MESSAGE_HELLO:
		take_hello(core, connection, &message.hello);
		break;
	case MESSAGE_READY:
		take_ready(core, connection, &message.ready);
		break;
	case MESSAGE_DATA:
		take_credit(core, connection, message.data.eager_emptied, 0);
		if (!core->has_failed)
			take_data(core, connection, &message.data);
		break;
	case MESSAGE_CREDIT:
		take_credit(core, connection, message.credit.eager_emptied, message.credit.slots);
		break;
	case MESSAGE_HEARTBEAT:
		take_heartbeat(core, connection, &message.heartbeat);
		break;
	case MESSAGE_ABORT:
		take_abort(core, connection, &message.abort);
		break;
	case MESSAGE_KINDS:
		break;
	}
}

void core_on_written(struct core *core, u32 connection, u32 immediate, u64 now_ns)
{
	u32 slot = IMMEDIATE_SLOT(immediate), tag = IMMEDIATE_TAG(immediate);
	struct call *call = find_tagged(core, connection, tag);
	struct held held = {slot == IN_PLACE ? PLACE_HERE : PLACE_SLOT, slot};

	core->now_ns = now_ns;
	core->connections[connection].heard_ns = now_ns;
	core->connections[connection].arrived++;
	if (core->has_failed)
		return;
	if (slot != IN_PLACE && slot >= core->config.slots) {
		protocol_error(core, connection, "it wrote into a slot that does not exist");
		return;
	}
	if (!call && slot == IN_PLACE) {
		protocol_error(core, connection, "it wrote into an array of a call that is not under way");
		return;
	}
	if (!call) {
		keep_write(core, connection, slot, tag, IMMEDIATE_NUMBER(immediate));
		return;
	}
	arrive(core, call, connection, IMMEDIATE_NUMBER(immediate), held);
	if (!core->has_failed)
		finish_if_done(core, call);
}
