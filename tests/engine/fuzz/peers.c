// SPDX-License-Identifier: Apache-2.0
#include "peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS   3
#define SLOTS   4
#define RESERVE 1
#define AFTER   24 /* actions after a failure */

/* Totals of all runs: a fuzzer that reaches nothing finds nothing. */
static struct {
	u64 done, eager, written, early, aborted;
	u64 failed[FAILURE_REASONS];
} reached;

u32 choose(struct world *world, u32 bytes)
{
	u32 value = 0;

	for (u32 i = 0; i < bytes && world->at < world->end; i++)
		value = value << 8 | *world->at++;
	return value;
}

static bool is_unlikely(struct world *world)
{
	return choose(world, 1) >= 0xf0;
}

static struct made_call *call_of(struct world *world, u32 sequence)
{
	if (!sequence || sequence >= FUZZ_CALLS)
		return NULL;
	if (!world->is_made[sequence]) {
		call_make(&world->calls[sequence], world->seed, sequence);
		world->is_made[sequence] = true;
	}
	return &world->calls[sequence];
}

static void submit(struct world *world)
{
	u32 sequence = world->core->submitted + 1;
	struct made_call *call = call_of(world, sequence);

	if (!call)
		return;
	call_allocate(call);
	if (!core_submit(world->core, &call->plan, &call->signature, call->buffers, call->buffer_count,
			 world->now_ns))
		call_free(call);
}

/* A program frees its arrays as soon as their call has ended. */
static void reap(struct world *world)
{
	for (u32 sequence = 1; sequence <= world->core->submitted && sequence < FUZZ_CALLS; sequence++) {
		struct made_call *call = &world->calls[sequence];
		enum call_state state = core_state(world->core, sequence);

		if (!world->is_made[sequence] || !call->buffers[0].memory || state == CALL_ACTIVE)
			continue;
		call_free(call);
		reached.done += state == CALL_DONE;
		reached.eager += state == CALL_DONE && call->is_eager && call->plan.segments;
		reached.written += state == CALL_DONE && !call->is_eager;
		core_release(world->core, sequence);
	}
}

/* Mostly the oldest call under way, or the next one. */
static u32 likely_sequence(struct world *world)
{
	const struct core *core = world->core;
	u32 which = choose(world, 1);

	if (which < 160)
		return core->active ? core->calls[core->order[0]].sequence : core->submitted + 1;
	return which < 250 ? core->submitted + which % 8 - 3 : choose(world, 4);
}

/* The tag that a peer's writes of a call have: of a call to come, as if all before it were submitted. */
static u32 tag_of(struct world *world, u32 sequence, u32 connection)
{
	const struct call *call = find_call(world->core, sequence);
	u32 tag = world->core->connections[connection].tags;

	if (call)
		return call->lanes[connection].tag;
	for (u32 next = world->core->submitted + 1; next < sequence && next < FUZZ_CALLS; next++) {
		const struct made_call *made = call_of(world, next);

		tag += !made->is_eager &&
		       (made->first_send[connection] != made->first_send[connection + 1] ||
			made->first_receive[connection] != made->first_receive[connection + 1]);
	}
	return tag;
}

static void send_message(struct world *world, u32 connection, const struct message *message,
			 const u8 *payload, u32 bytes)
{
	u8 built[MESSAGE_HEADER_MAX + FUZZ_SLOT_BYTES];
	u32 length = message_build(message, built), alter;

	if (bytes)
		memcpy(built + length, payload, bytes);
	length += bytes;
	alter = choose(world, 1);
	if (alter == 0xa1)
		built[choose(world, 2) % length] = choose(world, 1);
	if (alter == 0xa2)
		length = choose(world, 2) % sizeof(built);
	target.message(world, connection, built, length);
}

static u32 likely_emptied(struct world *world, u32 connection)
{
	const struct connection *self = &world->core->connections[connection];
	u32 under_way = self->eager_posted - self->eager_emptied_there;

	return self->eager_emptied_there +
	       (is_unlikely(world) ? choose(world, 1) : choose(world, 1) % (under_way + 1));
}

static bool has_free_slot(const struct connection *self)
{
	for (u32 i = 0; i < SLOTS; i++)
		if (!self->eager[i].is_used)
			return true;
	return false;
}

static void send_eager(struct world *world, u32 connection, u32 sequence, struct made_call *call,
		       const struct plan_segment *segment)
{
	static const u8 payload[FUZZ_SLOT_BYTES];
	struct message message = {.kind = MESSAGE_DATA};

	if (!has_free_slot(&world->core->connections[connection]) && !is_unlikely(world))
		return;
	message.data.sequence = sequence;
	message.data.number = segment->number;
	message.data.eager_emptied = likely_emptied(world, connection);
	message.data.signature = call->signature;
	reached.early += sequence - world->core->submitted - 1 < 8;
	world->sent[sequence][connection]++;
	send_message(world, connection, &message, payload, segment->length * call->itemsize);
}

/* A slot that holds no early segment. */
static u32 likely_slot(struct world *world, u32 connection)
{
	const struct early_write *kept = world->core->connections[connection].early_writes;
	u32 slot = choose(world, 1);

	if (slot >= 0xf0)
		return slot & 7;
	for (u32 i = 0; i < SLOTS && kept[slot % SLOTS].is_used; i++)
		slot++;
	return slot % SLOTS;
}

static void send_write(struct world *world, u32 connection, u32 sequence, struct made_call *call,
		       const struct plan_segment *segment)
{
	const struct call *under_way = find_call(world->core, sequence);
	u32 slot = likely_slot(world, connection), tag = tag_of(world, sequence, connection);
	u32 bytes = segment->length * call->itemsize, buffer = 0;
	wire_key key = world->core->connections[connection].our_key;
	u64 offset = (u64)slot * FUZZ_SLOT_BYTES;

	if (!segment->reduces && under_way) {
		while (segment->start >= call->buffers[buffer].first + call->buffers[buffer].count)
			buffer++;
		offset = (segment->start - call->buffers[buffer].first) * call->itemsize;
		key = under_way->keys[buffer];
		slot = IN_PLACE;
	} else if (!segment->reduces && !is_unlikely(world)) {
		return;
	}
	if (is_unlikely(world))
		key = choose(world, 2);
	if (is_unlikely(world))
		offset += choose(world, 4);
	if (is_unlikely(world))
		bytes = choose(world, 2);
	reached.early += !under_way;
	world->sent[sequence][connection]++;
	target.write(world, connection, key, offset, bytes, IMMEDIATE(tag % TAGS, slot, segment->number));
}

static void announce(struct world *world, u32 connection)
{
	struct message message = {.kind = MESSAGE_READY};
	u32 sequence = likely_sequence(world);
	const struct made_call *call = call_of(world, sequence);

	if (!call || ((call->is_eager || world->is_announced[sequence][connection]) && !is_unlikely(world)))
		return;
	world->is_announced[sequence][connection] = true;
	message.ready.sequence = sequence;
	message.ready.tag = tag_of(world, sequence, connection);
	message.ready.signature = call->signature;
	message.ready.buffers = choose(world, 1) % 4;
	for (u32 i = 0; i < message.ready.buffers; i++)
		message.ready.buffer[i] = (struct message_buffer){choose(world, 1), choose(world, 1)};
	send_message(world, connection, &message, NULL, 0);
}

/* The next segment of a peer, or one that is not its turn. */
static void send_segment(struct world *world, u32 connection)
{
	u32 sequence = likely_sequence(world), count, number;
	struct made_call *call = call_of(world, sequence);
	const struct plan_segment *segment;

	if (!call)
		return;
	if (!call->is_eager && !world->is_announced[sequence][connection]) {
		announce(world, connection);
		return;
	}
	count = call->first_receive[connection + 1] - call->first_receive[connection];
	number = is_unlikely(world) ? choose(world, 1) : world->sent[sequence][connection];
	if (!count || (number >= count && !is_unlikely(world)))
		return;
	segment = &call->segments[call->receive[call->first_receive[connection] + number % count]];
	if (call->is_eager)
		send_eager(world, connection, sequence, call, segment);
	else
		send_write(world, connection, sequence, call, segment);
}

static void send_hello(struct world *world, u32 connection)
{
	struct message message = {.kind = MESSAGE_HELLO};

	message.hello =
		(struct message_hello){choose(world, 1), SLOTS, FUZZ_SLOT_BYTES, SLOTS, FUZZ_EAGER_BYTES};
	send_message(world, connection, &message, NULL, 0);
}

static void send_credit(struct world *world, u32 connection)
{
	struct message message = {.kind = MESSAGE_CREDIT};

	message.credit.eager_emptied = likely_emptied(world, connection);
	message.credit.slots =
		~world->core->connections[connection].free_slots & choose(world, 1) & ((1 << SLOTS) - 1);
	send_message(world, connection, &message, NULL, 0);
}

static void send_heartbeat(struct world *world, u32 connection)
{
	struct message message = {.kind = MESSAGE_HEARTBEAT};

	message.heartbeat.sequence = likely_sequence(world);
	message.heartbeat.active = message.heartbeat.sequence & 1;
	message.heartbeat.posted = world->core->connections[connection].arrived + is_unlikely(world);
	message.heartbeat.stalled_ns = (u64)choose(world, 1) << 24;
	message.heartbeat.behind =
		(struct position){likely_sequence(world), choose(world, 1), choose(world, 1) % RANKS};
	send_message(world, connection, &message, NULL, 0);
}

static void send_abort(struct world *world, u32 connection)
{
	struct message message = {.kind = MESSAGE_ABORT};

	if (!is_unlikely(world))
		return;
	message.abort.culprit = (int)(choose(world, 1) % (RANKS + 1)) - 1;
	message.abort.seen_by = choose(world, 1) % RANKS;
	message.abort.reason = choose(world, 1) % FAILURE_REASONS;
	reached.aborted++;
	send_message(world, connection, &message, NULL, 0);
}

static void send_raw(struct world *world, u32 connection)
{
	u32 length = choose(world, 1);

	if (!is_unlikely(world))
		return;
	if (length > world->end - world->at)
		length = world->end - world->at;
	target.raw(world, connection, world->at, length);
	world->at += length;
}

static void pass_time(struct world *world)
{
	world->now_ns += (u64)choose(world, 1) << 22;
	core_tick(world->core, world->now_ns);
}

static void ask(struct world *world)
{
	struct call_standing standing;

	core_where(world->core, likely_sequence(world), &standing);
	core_delay(world->core, 0, world->now_ns);
}

static void act(struct world *world)
{
	u32 action = choose(world, 1), connection = action >> 7;

	switch (action & 31) {
	case 0 ... 4:
		return submit(world);
	case 5 ... 13:
		return send_segment(world, connection);
	case 14 ... 17:
		return announce(world, connection);
	case 18:
		return send_hello(world, connection);
	case 19:
		return send_credit(world, connection);
	case 20:
		return send_heartbeat(world, connection);
	case 21:
		return send_abort(world, connection);
	case 22:
		return send_raw(world, connection);
	case 23:
		return pass_time(world);
	case 24:
		return ask(world);
	case 25:
		if (is_unlikely(world))
			target.hang_up(world, connection);
		return;
	case 26:
		if (is_unlikely(world))
			core_fail(world->core, FAILURE_LOCAL, "KeyboardInterrupt");
		return;
	default:
		core_push(world->core);
		return target.progress(world);
	}
}

static void report(void)
{
	fprintf(stderr, "reached: done %llu eager %llu written %llu early %llu aborted %llu", reached.done,
		reached.eager, reached.written, reached.early, reached.aborted);
	for (u32 reason = 1; reason < FAILURE_REASONS; reason++)
		fprintf(stderr, " reason%u %llu", reason, reached.failed[reason]);
	fputc('\n', stderr);
}

/* Values that the peers' bytes must not set to nonsense: Python uses them as numbers of ranks and reasons. */
static void check_failure(const struct core_failure *failure)
{
	if (!failure)
		return;
	if (failure->reason == FAILURE_NONE || failure->reason >= FAILURE_REASONS || failure->culprit < -1 ||
	    failure->culprit >= RANKS || failure->seen_by >= RANKS)
		abort();
	reached.failed[failure->reason]++;
}

static void open_world(struct world *world)
{
	static const u32 ranks[FUZZ_CONNECTIONS] = {1, 2}, levels[FUZZ_CONNECTIONS] = {0, 1};
	struct core_config config = {.ranks = RANKS,
				     .connections = FUZZ_CONNECTIONS,
				     .peer_rank = ranks,
				     .peer_level = levels,
				     .slots = SLOTS,
				     .slot_bytes = FUZZ_SLOT_BYTES,
				     .eager_slots = SLOTS,
				     .eager_bytes = FUZZ_EAGER_BYTES,
				     .reserve = RESERVE,
				     .warn_ns = 1000000000,
				     .timeout_ns = 2000000000,
				     .heartbeat_ns = 250000000};
	const struct wire_operations *operations;

	world->now_ns = 1000000000;
	world->seed = choose(world, 2);
	operations = target.open(world);
	world->core = core_create(&config, operations, world->wire);
	if (!world->core || !core_start(world->core, world->now_ns))
		abort();
	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++)
		send_hello(world, i);
}

static void close_world(struct world *world)
{
	check_failure(core_failure(world->core));
	target.close(world);
	core_destroy(world->core);
	for (u32 sequence = 1; sequence < FUZZ_CALLS; sequence++)
		if (world->is_made[sequence])
			call_free(&world->calls[sequence]);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	static bool reports;
	static struct world world;
	u32 after = 0;

	if (!reports)
		reports = !atexit(report);
	memset(world.is_made, 0, sizeof(world.is_made));
	memset(world.sent, 0, sizeof(world.sent));
	memset(world.is_announced, 0, sizeof(world.is_announced));
	world.at = data;
	world.end = data + bytes;
	open_world(&world);
	while (world.at < world.end && after < AFTER) {
		act(&world);
		reap(&world);
		after += world.core->has_failed;
	}
	close_world(&world);
	return 0;
}
