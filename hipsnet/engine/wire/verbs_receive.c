// SPDX-License-Identifier: Apache-2.0
/* The receiving half: completions, and messages, of which every field is checked before it is used. */
#include <stdio.h>
#include <string.h>

#include "engine/core/core.h"
#include "engine/wire/verbs_connection.h"

#define BATCH 32

static bool take_announcements(struct verbs_connection *self, const u8 *at, u32 bytes)
{
	if (bytes % VERBS_ANNOUNCEMENT)
		return false;
	for (; bytes; at += VERBS_ANNOUNCEMENT, bytes -= VERBS_ANNOUNCEMENT) {
		u64 key = verbs_get(at, 4);

		if (!key || key >= VERBS_REGIONS)
			return false;
		self->there[key] = (struct verbs_remote_region){verbs_get(at + 4, 4), verbs_get(at + 8, 8),
								verbs_get(at + 16, 8)};
	}
	return true;
}

/* A message in a receive slot. False if it is malformed. */
static bool take_message(struct verbs_wire *wire, u32 connection, struct core *core, const u8 *at, u32 bytes,
			 u64 now_ns)
{
	struct verbs_connection *self = &wire->connection[connection];

	if (bytes < VERBS_HEADER || bytes > wire->slot_bytes ||
	    !verbs_flow_grant(&self->flow, verbs_get(at + 8, 8)))
		return false;
	switch (at[0]) {
	case VERBS_CREDIT:
		return bytes == VERBS_HEADER;
	case VERBS_MESSAGE:
		core_on_message(core, connection, at + VERBS_HEADER, bytes - VERBS_HEADER, now_ns);
		return true;
	case VERBS_ANNOUNCE:
		return take_announcements(self, at + VERBS_HEADER, bytes - VERBS_HEADER);
	default:
		return false;
	}
}

static void take_received(struct verbs_wire *wire, u32 connection, struct core *core,
			  const struct verbs_completion *done, u64 now_ns)
{
	struct verbs_connection *self = &wire->connection[connection];
	bool is_paid = true;
	const u8 *at;

	if (done->number >= wire->receives || self->used == wire->receives)
		return; /* not one of ours */
	at = self->slots + done->number * wire->slot_bytes;
	self->flow.arrived++;
	self->used_slots[self->used++] = done->number;
	if (done->outcome == VERBS_WRITTEN) {
		core_on_written(core, connection, done->immediate, now_ns);
	} else {
		is_paid = at[0] != VERBS_CREDIT;
		if (!take_message(wire, connection, core, at, done->bytes, now_ns))
			verbs_end(wire, connection, core, VERBS_END_WORDS, 0, 0,
				  "it sent a malformed message", 0);
	}
	self->paid += is_paid;
}

static void take_sent(struct verbs_wire *wire, u32 connection, struct core *core,
		      const struct verbs_completion *done, u64 now_ns)
{
	struct verbs_connection *self = &wire->connection[connection];

	self->answered_ns = now_ns;
	if (done->number == VERBS_PROBE_NUMBER)
		self->is_probing = false;
	else
		verbs_acknowledge(wire, connection, core, done->number + 1);
}

static int find_connection(const struct verbs_wire *wire, u32 device, u32 queue_pair)
{
	for (u32 i = 0; i < wire->connections; i++) {
		const struct verbs_connection *self = &wire->connection[i];

		if (self->queue_pair == queue_pair && self->device == device && self->is_open)
			return i;
	}
	return -1; /* its queue pair has been closed */
}

static void take_completion(struct verbs_wire *wire, u32 device, struct core *core,
			    const struct verbs_completion *done, u64 now_ns)
{
	int connection = find_connection(wire, device, done->queue_pair);

	if (connection < 0)
		return;
	if (done->status)
		verbs_end(wire, connection, core, VERBS_END_STATUS, done->status, done->vendor_error, NULL,
			  0);
	else if (done->outcome == VERBS_SENT)
		take_sent(wire, connection, core, done, now_ns);
	else
		take_received(wire, connection, core, done, now_ns);
}

static void post_again(struct verbs_wire *wire, u32 connection, struct core *core)
{
	struct verbs_connection *self = &wire->connection[connection];
	int error =
		wire->posting.post_receives(wire->posting.context, connection, self->used_slots, self->used);

	wire->calls++;
	self->flow.posted_again += self->paid;
	self->used = self->paid = 0;
	if (error)
		verbs_end(wire, connection, core, VERBS_END_POSTING, error, 0, NULL, 0);
}

static void end_device(struct verbs_wire *wire, u32 device, struct core *core, int error)
{
	for (u32 i = 0; i < wire->connections; i++)
		if (wire->connection[i].device == device)
			verbs_end(wire, i, core, VERBS_END_POSTING, error, 0, NULL, 0);
}

void verbs_collect(struct verbs_wire *wire, u32 device, struct core *core, u64 now_ns)
{
	struct verbs_completion done[BATCH];
	u32 count = BATCH;

	/* Bounded: peers have no more credit until `flush` sends it. */
	while (count == BATCH) {
		int error = wire->posting.poll(wire->posting.context, device, done, BATCH, &count);

		wire->calls++;
		if (error) {
			end_device(wire, device, core, error);
			return;
		}
		for (u32 i = 0; i < count; i++)
			take_completion(wire, device, core, &done[i], now_ns);
		for (u32 i = 0; i < wire->connections; i++)
			if (wire->connection[i].is_open && wire->connection[i].used)
				post_again(wire, i, core);
	}
}
