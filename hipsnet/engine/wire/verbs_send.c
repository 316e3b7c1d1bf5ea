// SPDX-License-Identifier: Apache-2.0
/* The sending half of a queue pair: its queue, the ring of messages, and the requests to the device. */
#include <stdio.h>
#include <string.h>

#include "engine/core/core.h"
#include "engine/wire/verbs_connection.h"

static struct verbs_work *next_work(struct verbs_connection *self)
{
	return self->end - self->first == VERBS_QUEUE ? NULL : &self->waiting[self->end % VERBS_QUEUE];
}

bool verbs_queue_write(struct verbs_connection *self, const void *data, u32 bytes, wire_key key, u64 offset,
		       u32 immediate)
{
	struct verbs_work *work = next_work(self);

	if (!work)
		return false;
	*work = (struct verbs_work){.kind = VERBS_WRITE,
				    .data = data,
				    .bytes = bytes,
				    .key = key,
				    .offset = offset,
				    .immediate = immediate};
	self->end++;
	return true;
}

/* Contiguous space in the ring; skips the end of the ring where necessary. NULL if less than `keep` is left.
 */
static struct verbs_work *take_ring(const struct verbs_wire *wire, struct verbs_connection *self, u8 message,
				    u32 bytes, u32 keep, u8 **at)
{
	struct verbs_work *work = next_work(self);
	u32 place = self->ring_end % wire->ring_bytes, taken = VERBS_HEADER + bytes;
	u32 skipped = place + taken > wire->ring_bytes ? wire->ring_bytes - place : 0;

	if (!work || self->ring_end - self->ring_first + skipped + taken + keep > wire->ring_bytes)
		return NULL;
	*at = self->ring + (place + skipped) % wire->ring_bytes + VERBS_HEADER;
	*work = (struct verbs_work){.kind = VERBS_SEND,
				    .message = message,
				    .data = *at - VERBS_HEADER,
				    .bytes = taken,
				    .ring_bytes = skipped + taken};
	self->ring_end += skipped + taken;
	self->end++;
	return work;
}

/* Queues announcements of new regions. */
static bool queue_announcements(struct verbs_wire *wire, struct verbs_connection *self)
{
	u32 most = (wire->slot_bytes - VERBS_HEADER) / VERBS_ANNOUNCEMENT;

	while (self->announcements) {
		u32 count = self->announcements < most ? self->announcements : most;
		u8 *at;

		if (!take_ring(wire, self, VERBS_ANNOUNCE, count * VERBS_ANNOUNCEMENT, 0, &at))
			return false;
		verbs_take_announcements(wire, self, at, count);
	}
	return true;
}

bool verbs_queue_message(struct verbs_wire *wire, struct verbs_connection *self, const void *header,
			 u32 header_bytes, const void *payload, u32 payload_bytes)
{
	u32 bytes = header_bytes + payload_bytes;
	u8 *at;

	if (bytes > wire->slot_bytes - VERBS_HEADER || !queue_announcements(wire, self) ||
	    !take_ring(wire, self, VERBS_MESSAGE, bytes, payload_bytes ? VERBS_CONTROL : 0, &at))
		return false;
	memcpy(at, header, header_bytes);
	if (payload_bytes)
		memcpy(at + header_bytes, payload, payload_bytes);
	return true;
}

void verbs_abandon(struct verbs_connection *self)
{
	u32 kept = self->first;

	for (u32 at = self->first; at != self->end; at++) {
		const struct verbs_work *work = &self->waiting[at % VERBS_QUEUE];

		if (work->kind == VERBS_SEND)
			self->waiting[kept++ % VERBS_QUEUE] = *work;
	}
	self->end = kept;
}

static struct verbs_request begin_request(struct verbs_connection *self, bool is_credit,
					  struct verbs_piece piece)
{
	struct verbs_request request = {.number = verbs_flow_send(&self->flow, is_credit)};

	self->pieces[request.number % self->flow.sends] = piece;
	return request;
}

static void fill_message(struct verbs_connection *self, struct verbs_request *request, u8 message, u8 *at,
			 u32 bytes)
{
	memset(at, 0, VERBS_HEADER);
	at[0] = message;
	verbs_put(at + 8, verbs_flow_take_credit(&self->flow), 8);
	request->kind = VERBS_SEND;
	request->address = (uintptr_t)at;
	request->bytes = bytes;
	request->local_key = self->local_key;
	request->is_inline = bytes <= self->inline_bytes;
}

static struct verbs_request credit_request(struct verbs_connection *self)
{
	struct verbs_request request = begin_request(self, true, (struct verbs_piece){0});
	u8 *at = self->credits + request.number % self->flow.sends * VERBS_HEADER;

	fill_message(self, &request, VERBS_CREDIT, at, VERBS_HEADER);
	return request;
}

/* False, with the reason, if the write leaves the peer's region or its memory is not registered. */
static bool fill_write(struct verbs_wire *wire, struct verbs_connection *self, const struct verbs_work *work,
		       struct verbs_request *request, char *why)
{
	static const struct verbs_remote_region nothing;
	const struct verbs_remote_region *there =
		work->key < VERBS_REGIONS ? &self->there[work->key] : &nothing;

	if (work->bytes > there->bytes || work->offset > there->bytes - work->bytes) {
		snprintf(why, VERBS_WORDS,
			 "it has announced %llu bytes as region %u, and %u bytes at %llu are to be written "
			 "there",
			 there->bytes, work->key, work->bytes, work->offset);
		return false;
	}
	if (!verbs_local_key(wire, self->device, work->data, work->bytes, &request->local_key)) {
		snprintf(why, VERBS_WORDS, "the memory of a write to it is not registered");
		return false;
	}
	request->kind = VERBS_WRITE;
	request->address = (uintptr_t)work->data;
	request->bytes = work->bytes;
	request->immediate = work->immediate;
	request->remote_address = there->address + work->offset;
	request->remote_key = there->key;
	return true;
}

/* The requests that may be posted now; their number, or -1 with the reason. */
static int take_requests(struct verbs_wire *wire, struct verbs_connection *self,
			 struct verbs_request *requests, char *why)
{
	int count = 0;

	if (verbs_flow_owes_credit(&self->flow) && verbs_flow_may_send(&self->flow, true))
		requests[count++] = credit_request(self);
	while (self->first != self->end && verbs_flow_may_send(&self->flow, false)) {
		const struct verbs_work *work = &self->waiting[self->first++ % VERBS_QUEUE];
		struct verbs_request *request = &requests[count++];

		*request = begin_request(
			self, false,
			(struct verbs_piece){work->kind == VERBS_WRITE, work->immediate, work->ring_bytes});
		if (work->kind == VERBS_SEND)
			fill_message(self, request, work->message, (u8 *)work->data, work->bytes);
		else if (!fill_write(wire, self, work, request, why))
			return -1;
	}
	return count;
}

void verbs_send(struct verbs_wire *wire, u32 connection, struct core *core, u64 now_ns)
{
	struct verbs_connection *self = &wire->connection[connection];
	struct verbs_request requests[VERBS_SENDS_MAX];
	char why[VERBS_WORDS];
	int count, error;

	if (!verbs_awaits_answer(self))
		self->answered_ns = now_ns;
	count = take_requests(wire, self, requests, why);
	if (count < 0)
		verbs_end(wire, connection, core, VERBS_END_WORDS, 0, 0, why, 0);
	if (count <= 0)
		return;
	for (int i = 0; i < count; i++) {
		requests[i].is_signalled = ++self->unsignalled == wire->signal_every || i == count - 1;
		if (requests[i].is_signalled)
			self->unsignalled = 0;
	}
	error = wire->posting.post_send(wire->posting.context, connection, requests, count);
	wire->calls++;
	if (error)
		verbs_end(wire, connection, core, VERBS_END_POSTING, error, 0, NULL, 0);
}

void verbs_probe(struct verbs_wire *wire, u32 connection, struct core *core, u64 now_ns)
{
	struct verbs_connection *self = &wire->connection[connection];
	struct verbs_request request = {
		.number = VERBS_PROBE_NUMBER,
		.kind = VERBS_PROBE,
		.address = (uintptr_t)self->slots,
		.local_key = self->local_key,
		.remote_address = self->landing_address,
		.remote_key = self->landing_key,
		.is_signalled = true,
	};
	int error;

	self->answered_ns = now_ns;
	self->is_probing = true;
	error = wire->posting.post_send(wire->posting.context, connection, &request, 1);
	if (error)
		verbs_end(wire, connection, core, VERBS_END_POSTING, error, 0, NULL, 0);
}

void verbs_acknowledge(struct verbs_wire *wire, u32 connection, struct core *core, u64 number)
{
	struct verbs_connection *self = &wire->connection[connection];
	struct verbs_flow *flow = &self->flow;

	while (flow->acknowledged < number && flow->acknowledged < flow->posted) {
		struct verbs_piece piece = self->pieces[flow->acknowledged++ % flow->sends];

		self->ring_first += piece.ring_bytes;
		if (piece.is_write)
			core_on_sent(core, connection, piece.immediate);
	}
}
