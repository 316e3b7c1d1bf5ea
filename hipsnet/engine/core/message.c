// SPDX-License-Identifier: Apache-2.0
#include "engine/core/message.h"

#include <string.h>

#include "engine/reduce/reduce.h"

/* A position in a message: every access checks the remaining length. */
struct cursor {
	u8 *at, *end;
	bool is_short;
};

static void put(struct cursor *cursor, u64 value, u32 bytes)
{
	for (u32 i = 0; i < bytes; i++)
		*cursor->at++ = value >> 8 * i;
}

static u64 get(struct cursor *cursor, u32 bytes)
{
	u64 value = 0;

	if ((u64)(cursor->end - cursor->at) < bytes) {
		cursor->is_short = true;
		return 0;
	}
	for (u32 i = 0; i < bytes; i++)
		value |= (u64)*cursor->at++ << 8 * i;
	return value;
}

static void put_signature(struct cursor *cursor, const struct signature *signature)
{
	put(cursor, signature->count, 8);
	put(cursor, signature->cuts, 8);
	put(cursor, signature->purpose, 4);
	put(cursor, signature->dtype, 1);
	put(cursor, signature->operation, 1);
}

static bool get_signature(struct cursor *cursor, struct signature *signature)
{
	signature->count = get(cursor, 8);
	signature->cuts = get(cursor, 8);
	signature->purpose = get(cursor, 4);
	signature->dtype = get(cursor, 1);
	signature->operation = get(cursor, 1);
	return signature->dtype < REDUCE_DTYPES && signature->operation < CALL_OPERATIONS;
}

static void build_body(const struct message *message, struct cursor *cursor)
{
	switch (message->kind) {
	case MESSAGE_HELLO:
		put(cursor, message->hello.key, 4);
		put(cursor, message->hello.slots, 4);
		put(cursor, message->hello.slot_bytes, 4);
		put(cursor, message->hello.eager_slots, 4);
		put(cursor, message->hello.eager_bytes, 4);
		break;
	case MESSAGE_READY:
		put(cursor, message->ready.sequence, 4);
		put(cursor, message->ready.tag, 4);
		put_signature(cursor, &message->ready.signature);
		put(cursor, message->ready.buffers, 1);
		for (u32 i = 0; i < message->ready.buffers; i++) {
			put(cursor, message->ready.buffer[i].first, 8);
			put(cursor, message->ready.buffer[i].key, 4);
		}
		break;
	case MESSAGE_DATA:
		put(cursor, message->data.sequence, 4);
		put(cursor, message->data.number, 4);
		put(cursor, message->data.eager_emptied, 4);
		put_signature(cursor, &message->data.signature);
		break;
	case MESSAGE_CREDIT:
		put(cursor, message->credit.eager_emptied, 4);
		put(cursor, message->credit.slots, 8);
		break;
	case MESSAGE_HEARTBEAT:
		put(cursor, message->heartbeat.sequence, 4);
		put(cursor, message->heartbeat.active, 4);
		put(cursor, message->heartbeat.posted, 4);
		put(cursor, message->heartbeat.stalled_ns, 8);
		put(cursor, message->heartbeat.behind.sequence, 4);
		put(cursor, message->heartbeat.behind.step, 4);
		put(cursor, message->heartbeat.behind.rank, 4);
		break;
	case MESSAGE_ABORT: {
		u32 words = strnlen(message->abort.words, MESSAGE_REASON);

		put(cursor, (u32)message->abort.culprit, 4);
		put(cursor, message->abort.seen_by, 4);
		put(cursor, message->abort.level, 4);
		put(cursor, message->abort.reason, 4);
		put(cursor, message->abort.values[0], 8);
		put(cursor, message->abort.values[1], 8);
		put_signature(cursor, &message->abort.ours);
		put_signature(cursor, &message->abort.theirs);
		memcpy(cursor->at, message->abort.words, words);
		cursor->at += words;
		break;
	}
	case MESSAGE_KINDS:
		break;
	}
}

u32 message_build(const struct message *message, u8 *out)
{
	struct cursor cursor = {.at = out, .end = out + MESSAGE_HEADER_MAX};

	put(&cursor, message->kind, 1);
	build_body(message, &cursor);
	return cursor.at - out;
}

static bool parse_ready(struct cursor *cursor, struct message_ready *ready)
{
	ready->sequence = get(cursor, 4);
	ready->tag = get(cursor, 4);
	if (!get_signature(cursor, &ready->signature))
		return false;
	ready->buffers = get(cursor, 1);
	if (ready->buffers > MESSAGE_BUFFERS)
		return false;
	for (u32 i = 0; i < ready->buffers; i++) {
		ready->buffer[i].first = get(cursor, 8);
		ready->buffer[i].key = get(cursor, 4);
		if (i && ready->buffer[i].first < ready->buffer[i - 1].first)
			return false;
	}
	return true;
}

static bool parse_data(struct cursor *cursor, struct message_data *data)
{
	data->sequence = get(cursor, 4);
	data->number = get(cursor, 4);
	data->eager_emptied = get(cursor, 4);
	if (!get_signature(cursor, &data->signature) || cursor->is_short)
		return false;
	data->payload = cursor->at;
	data->bytes = cursor->end - cursor->at;
	cursor->at = cursor->end;
	return true;
}

static bool parse_abort(struct cursor *cursor, struct message_abort *abort)
{
	u64 words;

	abort->culprit = (int)get(cursor, 4);
	abort->seen_by = get(cursor, 4);
	abort->level = get(cursor, 4);
	abort->reason = get(cursor, 4);
	abort->values[0] = get(cursor, 8);
	abort->values[1] = get(cursor, 8);
	if (!get_signature(cursor, &abort->ours) || !get_signature(cursor, &abort->theirs))
		return false;
	words = cursor->end - cursor->at;
	if (words > MESSAGE_REASON)
		return false;
	memcpy(abort->words, cursor->at, words);
	abort->words[words] = 0;
	cursor->at = cursor->end;
	return true;
}

static bool parse_body(struct message *message, struct cursor *cursor)
{
	switch (message->kind) {
	case MESSAGE_HELLO:
		message->hello.key = get(cursor, 4);
		message->hello.slots = get(cursor, 4);
		message->hello.slot_bytes = get(cursor, 4);
		message->hello.eager_slots = get(cursor, 4);
		message->hello.eager_bytes = get(cursor, 4);
		return true;
	case MESSAGE_READY:
		return parse_ready(cursor, &message->ready);
	case MESSAGE_DATA:
		return parse_data(cursor, &message->data);
	case MESSAGE_CREDIT:
		message->credit.eager_emptied = get(cursor, 4);
		message->credit.slots = get(cursor, 8);
		return true;
	case MESSAGE_HEARTBEAT:
		message->heartbeat.sequence = get(cursor, 4);
		message->heartbeat.active = get(cursor, 4);
		message->heartbeat.posted = get(cursor, 4);
		message->heartbeat.stalled_ns = get(cursor, 8);
		message->heartbeat.behind.sequence = get(cursor, 4);
		message->heartbeat.behind.step = get(cursor, 4);
		message->heartbeat.behind.rank = get(cursor, 4);
		return true;
	case MESSAGE_ABORT:
		return parse_abort(cursor, &message->abort);
	case MESSAGE_KINDS:
		break;
	}
	return false;
}

bool message_parse(struct message *message, const u8 *bytes, u32 length)
{
	struct cursor cursor = {.at = (u8 *)bytes, .end = (u8 *)bytes + length};
	u32 kind = get(&cursor, 1);

	if (cursor.is_short || kind >= MESSAGE_KINDS)
		return false;
	message->kind = kind;
	return parse_body(message, &cursor) && !cursor.is_short && cursor.at == cursor.end;
}

bool signature_equals(const struct signature *a, const struct signature *b)
{
	return a->count == b->count && a->cuts == b->cuts && a->purpose == b->purpose &&
	       a->dtype == b->dtype && a->operation == b->operation;
}
