// SPDX-License-Identifier: Apache-2.0
/* Calls from submission to release, and the dependencies of their segments. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/core/core_internal.h"
#include "engine/reduce/reduce.h"

static void *map_memory(u64 bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	/* Pages of 4 KiB cost 4 % of an all-reduce of 64 MiB in TLB misses. */
	madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

static bool has_sane_config(const struct core_config *config)
{
	return config->slots && config->slots <= CORE_SLOTS_MAX && config->reserve < config->slots &&
	       config->reserve < config->eager_slots && config->eager_bytes &&
	       !(config->slot_bytes % SLOT_ALIGNMENT) && !(config->eager_bytes % SLOT_ALIGNMENT);
}

struct core *core_create(const struct core_config *config, const struct wire_operations *wire, void *handle)
{
	struct core *core = has_sane_config(config) ? calloc(1, sizeof(*core)) : NULL;
	u32 connections = config->connections;

	if (!core)
		return NULL;
	core->config = *config;
	core->wire = wire;
	core->handle = handle;
	core->connections = calloc(connections + 1, sizeof(*core->connections));
	core->staging_bytes = (u64)connections * config->slots * config->slot_bytes + 1;
	core->eager_bytes = (u64)connections * config->eager_slots * config->eager_bytes + 1;
	core->staging = map_memory(core->staging_bytes);
	core->eager = map_memory(core->eager_bytes);
	for (u32 i = 0; core->connections && i < connections; i++) {
		struct connection *connection = &core->connections[i];

		connection->rank = config->peer_rank[i];
		connection->level = config->peer_level[i];
		connection->staging = core->staging + (u64)i * config->slots * config->slot_bytes;
		connection->eager = calloc(config->eager_slots, sizeof(*connection->eager));
		for (u32 slot = 0; connection->eager && slot < config->eager_slots; slot++)
			connection->eager[slot].payload =
				core->eager + ((u64)i * config->eager_slots + slot) * config->eager_bytes;
		if (!connection->eager)
			core->has_failed = true;
	}
	if (!core->connections || !core->staging || !core->eager || core->has_failed) {
		core_destroy(core);
		return NULL;
	}
	core->config.peer_rank = core->config.peer_level = NULL; /* copied above */
	return core;
}

static void free_call(struct call *call)
{
	free(call->lanes);
	free(call->peer_buffers);
	free(call->waits);
	free(call->held);
	free(call->stack);
}

void core_destroy(struct core *core)
{
	for (u32 i = 0; i < CORE_WINDOW; i++)
		free_call(&core->calls[i]);
	for (u32 i = 0; core->connections && i < core->config.connections; i++)
		free(core->connections[i].eager);
	free(core->connections);
	if (core->staging)
		munmap(core->staging, core->staging_bytes);
	if (core->eager)
		munmap(core->eager, core->eager_bytes);
	free(core);
}

bool core_start(struct core *core, u64 now_ns)
{
	const struct core_config *config = &core->config;

	core->now_ns = now_ns;
	core->stall.tolerance_ns = config->heartbeat_ns / 2;
	stall_progressed(&core->stall, now_ns);
	for (u32 i = 0; i < config->connections; i++) {
		struct connection *connection = &core->connections[i];
		struct message message = {.kind = MESSAGE_HELLO};

		connection->heard_ns = connection->spoke_ns = now_ns;
		connection->our_key = core->wire->register_memory(core->handle, connection->staging,
								  (u64)config->slots * config->slot_bytes);
		if (!connection->our_key)
			return false;
		message.hello = (struct message_hello){connection->our_key, config->slots, config->slot_bytes,
						       config->eager_slots, config->eager_bytes};
		if (!send_control(core, i, &message))
			return false;
	}
	return true;
}

struct call *find_call(struct core *core, u32 sequence)
{
	struct call *call = &core->calls[sequence % CORE_WINDOW];

	return call->state == CALL_ACTIVE && call->sequence == sequence ? call : NULL;
}

struct call *find_tagged(struct core *core, u32 connection, u32 tag)
{
	for (u32 i = 0; i < core->active; i++) {
		struct call *call = &core->calls[core->order[i]];
		const struct lane *lane = &call->lanes[connection];

		if (!call->is_eager && lane->is_used && lane->tag % TAGS == tag)
			return call;
	}
	return NULL;
}

static u32 buffer_of(const struct call_buffer *buffers, u32 count, u64 element)
{
	u32 low = 0, high = count;

	while (high - low > 1) {
		u32 middle = (low + high) / 2;

		if (buffers[middle].first <= element)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Whether each segment lies within one buffer. */
static bool contain(const struct call_buffer *buffers, u32 count, const struct plan *plan)
{
	if (count == 1 && !buffers[0].first && buffers[0].count >= plan->count)
		return true;
	for (u32 i = 0; i < plan->segments; i++) {
		const struct plan_segment *at = &plan->segment[i];
		const struct call_buffer *buffer = &buffers[count ? buffer_of(buffers, count, at->start) : 0];

		if (!count || at->start < buffer->first || at->length > buffer->count ||
		    at->start - buffer->first > buffer->count - at->length)
			return false;
	}
	return true;
}

static bool reserve_arrays(struct core *core, struct call *call, u32 segments)
{
	u32 connections = core->config.connections;

	if (!call->lanes) {
		call->lanes = calloc(connections + 1, sizeof(*call->lanes));
		call->peer_buffers =
			calloc((u64)connections * MESSAGE_BUFFERS + 1, sizeof(*call->peer_buffers));
	}
	if (segments > call->capacity || !call->waits) {
		free(call->waits);
		free(call->held);
		free(call->stack);
		call->waits = malloc((segments + 1) * sizeof(*call->waits));
		call->held = malloc((segments + 1) * sizeof(*call->held));
		call->stack = malloc((segments + 1) * sizeof(*call->stack));
		call->capacity = segments;
	}
	return call->lanes && call->peer_buffers && call->waits && call->held && call->stack;
}

static bool register_buffers(struct core *core, struct call *call)
{
	for (u32 i = 0; i < call->buffer_count; i++) {
		const struct call_buffer *buffer = &call->buffers[i];

		call->keys[i] = core->wire->register_memory(core->handle, buffer->memory,
							    buffer->count * call->itemsize);
		if (!call->keys[i]) {
			while (i--)
				core->wire->deregister_memory(core->handle, call->keys[i]);
			return false;
		}
	}
	return true;
}

static void prepare_lanes(struct core *core, struct call *call)
{
	const struct plan *plan = call->plan;

	call->readies_left = 0;
	for (u32 i = 0; i < core->config.connections; i++) {
		bool is_used = plan->first_send[i] != plan->first_send[i + 1] ||
			       plan->first_receive[i] != plan->first_receive[i + 1];

		call->lanes[i] = (struct lane){.is_used = is_used};
		if (!is_used || call->is_eager)
			continue;
		call->lanes[i].tag = core->connections[i].tags++;
		call->readies_left++;
	}
}

static bool is_eager(const struct core *core, const struct plan *plan, u32 itemsize)
{
	return (u64)plan->longest * itemsize <= core->config.eager_bytes;
}

/* The silence of a peer counts from the moment at which it is awaited. */
static void await_from(struct core *core, u64 now_ns)
{
	for (u32 i = 0; i < core->config.connections; i++)
		if (!is_awaited(core, i))
			core->connections[i].heard_ns = now_ns;
}

u32 core_submit(struct core *core, const struct plan *plan, const struct signature *signature,
		const struct call_buffer *buffers, u32 count, u64 now_ns)
{
	struct call *call = &core->calls[(core->submitted + 1) % CORE_WINDOW];
	u32 itemsize = reduce_itemsize(signature->dtype);

	core->now_ns = now_ns;
	if (core->has_failed || call->state != CALL_UNKNOWN || !reserve_arrays(core, call, plan->segments))
		return 0;
	if (!is_eager(core, plan, itemsize) && (u64)plan->longest * itemsize > core->config.slot_bytes)
		return 0;
	if (count > MESSAGE_BUFFERS || !contain(buffers, count, plan))
		return 0;
	await_from(core, now_ns);
	call->plan = plan;
	call->signature = *signature;
	call->itemsize = itemsize;
	call->is_eager = is_eager(core, plan, itemsize);
	memcpy(call->buffers, buffers, count * sizeof(*buffers));
	call->buffer_count = count;
	if (!call->is_eager && !register_buffers(core, call))
		return 0;
	call->sequence = ++core->submitted;
	call->state = CALL_ACTIVE;
	call->segments_left = plan->segments;
	memcpy(call->waits, plan->waits, plan->segments * sizeof(*call->waits));
	memset(call->held, 0, plan->segments * sizeof(*call->held));
	core->order[core->active++] = call->sequence % CORE_WINDOW;
	stall_progressed(&core->stall, now_ns);
	prepare_lanes(core, call);
	for (u32 i = 0; i < core->config.connections; i++) {
		if (!call->is_eager && call->lanes[i].is_used)
			send_ready(core, call, i);
	}
	core->may_push = true;
	take_early(core, call);
	if (call->state == CALL_ACTIVE)
		finish_if_done(core, call);
	return call->sequence;
}

enum call_state core_state(const struct core *core, u32 sequence)
{
	const struct call *call = &core->calls[sequence % CORE_WINDOW];

	return call->sequence == sequence ? call->state : CALL_UNKNOWN;
}

void core_release(struct core *core, u32 sequence)
{
	struct call *call = &core->calls[sequence % CORE_WINDOW];

	if (call->sequence == sequence && (call->state == CALL_DONE || call->state == CALL_FAILED))
		call->state = CALL_UNKNOWN;
}

u32 core_active(const struct core *core)
{
	return core->active;
}

u32 core_ended(const struct core *core)
{
	return core->submitted - core->active;
}

/* The memory of a segment, which lies within one buffer. */
void *address_of(const struct call *call, const struct plan_segment *segment)
{
	const struct call_buffer *buffer =
		&call->buffers[buffer_of(call->buffers, call->buffer_count, segment->start)];

	return (u8 *)buffer->memory + (segment->start - buffer->first) * call->itemsize;
}

/* The buffer of the peer that contains a segment, and its byte offset there. */
struct message_buffer place_at_peer(const struct call *call, const struct plan_segment *segment, u64 *offset)
{
	const struct message_buffer *buffers = &call->peer_buffers[segment->connection * MESSAGE_BUFFERS];
	u32 low = 0, high = call->lanes[segment->connection].peer_buffers;

	while (high - low > 1) {
		u32 middle = (low + high) / 2;

		if (buffers[middle].first <= segment->start)
			low = middle;
		else
			high = middle;
	}
	*offset = (segment->start - buffers[low].first) * call->itemsize;
	return buffers[low];
}

/* Completes a segment that was sent, or that arrived and has no open dependencies, and all that it releases.
 */
void complete_segment(struct core *core, struct call *call, u32 segment)
{
	const struct plan *plan = call->plan;
	u32 depth = 0;

	call->stack[depth++] = segment;
	while (depth) {
		u32 at = call->stack[--depth];

		if (!plan->segment[at].sends)
			apply(core, call, at);
		call->segments_left--;
		stall_progressed(&core->stall, core->now_ns);
		for (u32 i = plan->first_release[at]; i < plan->first_release[at + 1]; i++) {
			u32 next = plan->release[i];

			if (--call->waits[next])
				continue;
			if (plan->segment[next].sends)
				core->may_push = true;
			else if (call->held[next].place != PLACE_NOWHERE)
				call->stack[depth++] = next;
		}
	}
}

static void divide(const struct call *call, u32 ranks)
{
	for (u32 i = 0; i < call->buffer_count; i++)
		if (call->buffers[i].has_result)
			reduce_divide(call->signature.dtype, call->buffers[i].memory, ranks,
				      call->buffers[i].count);
}

static void take_from_order(struct core *core, u32 place)
{
	u32 i = 0;

	while (core->order[i] != place)
		i++;
	core->active--;
	memmove(&core->order[i], &core->order[i + 1], (core->active - i) * sizeof(*core->order));
}

void finish_if_done(struct core *core, struct call *call)
{
	if (call->segments_left || call->readies_left)
		return;
	if (call->signature.operation == CALL_MEAN)
		divide(call, core->config.ranks);
	for (u32 i = 0; !call->is_eager && i < call->buffer_count; i++)
		core->wire->deregister_memory(core->handle, call->keys[i]);
	call->state = CALL_DONE;
	take_from_order(core, call->sequence % CORE_WINDOW);
}
