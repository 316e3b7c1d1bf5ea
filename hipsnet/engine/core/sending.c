// SPDX-License-Identifier: Apache-2.0
/* The order of sending: segments in the order of their schedule, calls in turn, and credits. */
#include <stddef.h>

#include "engine/core/core_internal.h"

bool send_control(struct core *core, u32 connection, const struct message *message)
{
	u8 bytes[MESSAGE_HEADER_MAX];
	u32 length = message_build(message, bytes);

	if (core->connections[connection].is_closed)
		return true;
	core->connections[connection].spoke_ns = core->now_ns;
	return core->wire->post_message(core->handle, connection, bytes, length, NULL, 0);
}

void send_ready(struct core *core, struct call *call, u32 connection)
{
	struct message message = {.kind = MESSAGE_READY};

	message.ready.sequence = call->sequence;
	message.ready.tag = call->lanes[connection].tag;
	message.ready.signature = call->signature;
	message.ready.buffers = call->buffer_count;
	for (u32 i = 0; i < call->buffer_count; i++)
		message.ready.buffer[i] = (struct message_buffer){call->buffers[i].first, call->keys[i]};
	if (!send_control(core, connection, &message))
		fail_at(core, FAILURE_LOCAL, -1, 0, 0,
			"the send queue is full: cannot send a control message");
}

/* Sends credits for freed slots: at once, or when enough slots are free. */
void give_credit(struct core *core, u32 connection, bool at_once)
{
	struct connection *self = &core->connections[connection];
	u32 eager = self->eager_emptied - self->eager_credited,
	    slots = __builtin_popcountll(self->slots_to_credit);
	struct message message = {.kind = MESSAGE_CREDIT};

	if (!eager && !slots)
		return;
	if (!at_once && eager < core->config.eager_slots / 2 && slots < (core->config.slots + 3) / 4)
		return;
	message.credit.eager_emptied = self->eager_emptied;
	message.credit.slots = self->slots_to_credit;
	if (!send_control(core, connection, &message))
		return; /* the wire is full; the next call tries again */
	self->eager_credited = self->eager_emptied;
	self->slots_to_credit = 0;
}

/* The next segment of a call to send on a connection; -1 if there is none, or if it has open dependencies. */
static int next_segment(const struct call *call, u32 connection)
{
	const struct plan *plan = call->plan;
	u32 at = plan->first_send[connection] + call->lanes[connection].sent;
	u32 segment;

	if (at == plan->first_send[connection + 1])
		return -1;
	segment = plan->send[at];
	return call->waits[segment] ? -1 : (int)segment;
}

static bool has_unsent(const struct call *call, u32 connection)
{
	const struct plan *plan = call->plan;

	return plan->first_send[connection] + call->lanes[connection].sent !=
	       plan->first_send[connection + 1];
}

/* Whether no older call of the same kind has segments left to send on the connection. */
static bool is_oldest(const struct core *core, const struct call *call, u32 connection)
{
	for (u32 i = 0; i < core->active; i++) {
		const struct call *other = &core->calls[core->order[i]];

		if (other == call)
			return true;
		if (other->is_eager == call->is_eager && has_unsent(other, connection))
			return false;
	}
	return true;
}

static bool post_eager(struct core *core, struct call *call, u32 connection, u32 segment)
{
	struct connection *self = &core->connections[connection];
	const struct plan_segment *at = &call->plan->segment[segment];
	u32 under_way = self->eager_posted - self->eager_emptied_there;
	u32 reserve = is_oldest(core, call, connection) ? 0 : core->config.reserve;
	struct message message = {.kind = MESSAGE_DATA};
	u8 header[MESSAGE_HEADER_MAX];
	const void *payload;

	if (under_way + reserve >= core->config.eager_slots)
		return false;
	payload = address_of(call, at);
	message.data.sequence = call->sequence;
	message.data.number = at->number;
	message.data.eager_emptied = self->eager_emptied;
	message.data.signature = call->signature;
	if (!core->wire->post_message(core->handle, connection, header, message_build(&message, header),
				      payload, at->length * call->itemsize)) {
		core->is_wire_full = true;
		return false;
	}
	self->eager_credited = self->eager_emptied;
	self->eager_posted++;
	self->posted++;
	self->spoke_ns = core->now_ns;
	call->lanes[connection].sent++;
	call->lanes[connection].left++;
	complete_segment(core, call, segment); /* the wire has a copy */
	return true;
}

/* A staging slot of the peer; -1 if none is free for this call. */
static int choose_slot(const struct core *core, const struct call *call, u32 connection)
{
	u64 free_slots = core->connections[connection].free_slots;
	u32 reserve = is_oldest(core, call, connection) ? 0 : core->config.reserve;

	if ((u32)__builtin_popcountll(free_slots) <= reserve)
		return -1;
	return __builtin_ctzll(free_slots);
}

static bool post_write(struct core *core, struct call *call, u32 connection, u32 segment)
{
	struct connection *self = &core->connections[connection];
	const struct plan_segment *at = &call->plan->segment[segment];
	struct lane *lane = &call->lanes[connection];
	int slot = IN_PLACE;
	wire_key key;
	u64 offset;
	const void *data = address_of(call, at);

	if (self->in_flight == CORE_IN_FLIGHT)
		return false;
	if (at->reduces) {
		slot = self->has_greeted ? choose_slot(core, call, connection) : -1;
		key = self->staging_key;
		offset = (u64)slot * core->config.slot_bytes;
	} else {
		key = place_at_peer(call, at, &offset).key;
		if (!lane->is_ready)
			slot = -1;
	}
	if (slot < 0)
		return false;
	if (!core->wire->post_write(core->handle, connection, data, at->length * call->itemsize, key, offset,
				    IMMEDIATE(lane->tag % TAGS, slot, at->number))) {
		core->is_wire_full = true;
		return false;
	}
	if (slot != IN_PLACE)
		self->free_slots &= ~(1ULL << slot);
	self->in_flight++;
	self->posted++;
	self->spoke_ns = core->now_ns;
	lane->sent++;
	return true;
}

static bool post_next(struct core *core, struct call *call, u32 connection)
{
	int segment = next_segment(call, connection);

	if (segment < 0)
		return false;
	return call->is_eager ? post_eager(core, call, connection, segment)
			      : post_write(core, call, connection, segment);
}

/* Small calls first: they hardly delay a large one. Then the others in turn, one segment each. */
static bool push_one(struct core *core, u32 connection)
{
	struct connection *self = &core->connections[connection];
	u32 after = 0;

	for (u32 i = 0; i < core->active; i++) {
		struct call *call = &core->calls[core->order[i]];

		if (call->is_eager && post_next(core, call, connection)) {
			finish_if_done(core, call);
			return true;
		}
	}
	while (after < core->active && core->calls[core->order[after]].sequence <= self->turn)
		after++;
	for (u32 i = 0; i < core->active; i++) {
		struct call *call = &core->calls[core->order[(after + i) % core->active]];

		if (!call->is_eager && post_next(core, call, connection)) {
			self->turn = call->sequence;
			return true;
		}
	}
	return false;
}

void core_push(struct core *core)
{
	core->may_push |= core->is_wire_full; /* the wire may accept data again */
	core->is_wire_full = false;
	while (core->may_push && !core->has_failed) {
		core->may_push = false; /* completing an eager send may set it again */
		for (u32 i = 0; i < core->config.connections; i++) {
			while (push_one(core, i) && !core->has_failed)
				;
			give_credit(core, i, false);
		}
	}
}

void core_on_sent(struct core *core, u32 connection, u32 immediate)
{
	struct call *call = find_tagged(core, connection, IMMEDIATE_TAG(immediate));

	core->connections[connection].in_flight--;
	core->may_push = true;
	if (core->has_failed || !call)
		return;
	call->lanes[connection].left++;
	complete_segment(core, call,
			 call->plan->send[call->plan->first_send[connection] + IMMEDIATE_NUMBER(immediate)]);
	finish_if_done(core, call);
}
