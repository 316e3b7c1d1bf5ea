// SPDX-License-Identifier: Apache-2.0
#include "calls.h"

#include <stdlib.h>
#include <string.h>

#include "engine/reduce/reduce.h"

/* splitmix64 */
static u32 draw(u64 *state, u32 below)
{
	u64 value = *state += 0x9e3779b97f4a7c15ULL;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ULL;
	value = (value ^ value >> 27) * 0x94d049bb133111ebULL;
	return (u32)(value ^ value >> 31) % below;
}

static void make_buffers(struct made_call *call, u64 *state)
{
	u32 longest = FUZZ_SLOT_BYTES / call->itemsize;

	call->buffer_count = 1 + draw(state, CALL_BUFFERS);
	for (u32 i = 0; i < call->buffer_count; i++) {
		u64 count = draw(state, 4) ? 1 + draw(state, draw(state, 2) ? 2 * longest : 5) : 0;

		call->buffers[i] = (struct call_buffer){NULL, call->signature.count, count, true};
		call->signature.count += count;
	}
}

/* A segment within one buffer; false if the buffer is empty. */
static bool place(struct made_call *call, struct plan_segment *segment, u32 longest, u64 *state)
{
	const struct call_buffer *buffer = &call->buffers[draw(state, call->buffer_count)];
	u32 most = buffer->count < longest ? buffer->count : longest;

	if (!most)
		return false;
	segment->length = 1 + draw(state, most);
	segment->start = buffer->first + draw(state, buffer->count - segment->length + 1);
	return true;
}

static void make_segments(struct made_call *call, u64 *state)
{
	u32 bytes = draw(state, 2) ? FUZZ_EAGER_BYTES : FUZZ_SLOT_BYTES,
	    wished = 1 + draw(state, CALL_SEGMENTS);

	for (u32 i = 0; i < wished; i++) {
		struct plan_segment *segment = &call->segments[call->plan.segments];

		if (!place(call, segment, bytes / call->itemsize, state))
			continue;
		segment->connection = draw(state, FUZZ_CONNECTIONS);
		segment->stage = i;
		segment->sends = draw(state, 2);
		segment->reduces = draw(state, 2);
		if (segment->length > call->plan.longest)
			call->plan.longest = segment->length;
		call->plan.segments++;
	}
}

/* Up to three received segments that are folded: the last one, or a root, others and the last one. */
static void make_fold(struct made_call *call, u64 *state)
{
	u32 first = call->plan.segments, count = 1 + draw(state, 3);
	struct plan_segment one = {.reduces = true, .root = first};

	if (first + count > CALL_SEGMENTS || !place(call, &one, FUZZ_EAGER_BYTES / call->itemsize, state))
		return;
	for (u32 i = 0; i < count; i++) {
		one.connection = draw(state, FUZZ_CONNECTIONS);
		one.fold = i + 1 == count ? FOLD_LAST : i ? FOLD_NEXT : FOLD_ROOT;
		call->segments[call->plan.segments++] = one;
	}
	if (one.length > call->plan.longest)
		call->plan.longest = one.length;
}

static bool follows(const struct made_call *call, u32 segment)
{
	return call->segments[segment].fold != FOLD_NONE && call->segments[segment].root != segment;
}

/* Each segment waits for up to two earlier ones; in a fold, for the one before it. */
static void make_dependencies(struct made_call *call, u64 *state)
{
	u32 earlier[CALL_SEGMENTS][2], used = 0;

	for (u32 i = 0; i < call->plan.segments; i++) {
		call->waits[i] = i ? draw(state, 3) : 0;
		for (u32 n = 0; n < call->waits[i]; n++)
			earlier[i][n] = draw(state, i);
		if (follows(call, i)) {
			call->waits[i] = 1;
			earlier[i][0] = i - 1;
		}
	}
	for (u32 i = 0; i < call->plan.segments; i++) {
		call->first_release[i] = used;
		for (u32 later = i + 1; later < call->plan.segments; later++)
			for (u32 n = 0; n < call->waits[later]; n++)
				if (earlier[later][n] == i)
					call->release[used++] = later;
	}
	call->first_release[call->plan.segments] = used;
}

static void make_rows(struct made_call *call, bool sends, u32 *first, u32 *row)
{
	u32 used = 0;

	for (u32 connection = 0; connection < FUZZ_CONNECTIONS; connection++) {
		first[connection] = used;
		for (u32 i = 0; i < call->plan.segments; i++) {
			struct plan_segment *segment = &call->segments[i];

			if (segment->connection != connection || segment->sends != sends)
				continue;
			segment->number = used - first[connection];
			row[used++] = i;
		}
	}
	first[FUZZ_CONNECTIONS] = used;
}

void call_make(struct made_call *call, u64 seed, u32 sequence)
{
	u64 state = seed << 32 | sequence;

	memset(call, 0, sizeof(*call));
	call->signature.dtype = draw(&state, REDUCE_DTYPES);
	call->signature.operation = draw(&state, CALL_COPY);
	call->itemsize = reduce_itemsize(call->signature.dtype);
	make_buffers(call, &state);
	make_segments(call, &state);
	if (draw(&state, 2))
		make_fold(call, &state);
	make_dependencies(call, &state);
	make_rows(call, true, call->first_send, call->send);
	make_rows(call, false, call->first_receive, call->receive);
	call->is_eager = call->plan.longest * call->itemsize <= FUZZ_EAGER_BYTES;
	call->plan.count = call->signature.count;
	call->plan.connections = FUZZ_CONNECTIONS;
	call->plan.segment = call->segments;
	call->plan.waits = call->waits;
	call->plan.first_release = call->first_release;
	call->plan.release = call->release;
	call->plan.first_send = call->first_send;
	call->plan.send = call->send;
	call->plan.first_receive = call->first_receive;
	call->plan.receive = call->receive;
}

void call_allocate(struct made_call *call)
{
	for (u32 i = 0; i < call->buffer_count; i++) {
		u64 bytes = call->buffers[i].count * call->itemsize;

		call->buffers[i].memory = malloc(bytes ? bytes : 1);
		memset(call->buffers[i].memory, 1, bytes);
	}
}

void call_free(struct made_call *call)
{
	for (u32 i = 0; i < call->buffer_count; i++) {
		free(call->buffers[i].memory);
		call->buffers[i].memory = NULL;
	}
}
