// SPDX-License-Identifier: Apache-2.0
/* The core on the verbs wire: a device in memory, through which the peers send anything. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/wire/verbs_connection.h"
#include "peers.h"

#define WINDOW       16
#define RECEIVES     (WINDOW + 2)
#define SENDS        (2 * WINDOW)
#define SLOT         (VERBS_HEADER + MESSAGE_HEADER_MAX + FUZZ_EAGER_BYTES)
#define RING         0x20000
#define SILENT_NS    40000000000
#define ACCESS_ERROR 8 /* ibv_wc_status: what a queue pair reports after a write that it has refused */
#define COMPLETIONS  256

/* A queue pair of the wire. */
struct pair {
	int sockets[2];
	u8 *memory;
	bool is_open, is_held;
	u32 status;
	u32 slots[RECEIVES], first, end; /* receives */
	struct verbs_request requests[SENDS + 1];
	u32 requested, delivered; /* requests, never wrapped */
	u64 paid;                 /* delivered requests that used credit */
};

static struct pair pairs[FUZZ_CONNECTIONS];
static struct verbs_completion completions[COMPLETIONS];
static u32 completed, polled;
static int channel;
static volatile u8 sink;

static void complete(u32 connection, struct verbs_completion completion)
{
	completion.queue_pair = connection;
	if (completed - polled == COMPLETIONS)
		abort();
	completions[completed++ % COMPLETIONS] = completion;
}

static int post_send(void *context, u32 connection, const struct verbs_request *requests, u32 count)
{
	struct pair *pair = &pairs[connection];

	(void)context;
	for (u32 i = 0; i < count; i++) {
		if (pair->requested - pair->delivered > SENDS || !pair->is_open)
			abort();
		pair->requests[pair->requested++ % (SENDS + 1)] = requests[i];
	}
	return 0;
}

static int post_receives(void *context, u32 connection, const u32 *slots, u32 count)
{
	struct pair *pair = &pairs[connection];

	(void)context;
	for (u32 i = 0; i < count; i++)
		pair->slots[pair->end++ % RECEIVES] = slots[i];
	if (pair->end - pair->first > RECEIVES)
		abort();
	return 0;
}

static int poll_queue(void *context, u32 device, struct verbs_completion *found, u32 most, u32 *count)
{
	(void)context, (void)device;
	for (*count = 0; *count < most && polled != completed; ++*count)
		found[*count] = completions[polled++ % COMPLETIONS];
	return 0;
}

static int nothing(void *context, u32 device)
{
	(void)context, (void)device;
	return 0;
}

static void end(void *context, u32 connection, u32 reason, u64 first, u64 second, char *why)
{
	(void)context, (void)reason, (void)first, (void)second, (void)why;
	pairs[connection].is_open = false;
}

static u32 pin(void *context, void *memory, u64 bytes)
{
	struct world *world = context;
	struct verbs_wire *wire = world->wire;
	u32 key = 1;

	while (wire->regions[key].memory)
		key++;
	verbs_wire_add_region(wire, key, memory, bytes, &key, &key);
	return key;
}

static void unpin(void *context, u32 key)
{
	struct world *world = context;

	if (!verbs_wire_remove_region(world->wire, key, true))
		abort();
}

static const struct wire_operations *open_wire(struct world *world)
{
	const u64 bytes = RECEIVES * SLOT + RING + SENDS * VERBS_HEADER;
	struct verbs_connection_config connections[FUZZ_CONNECTIONS];
	struct verbs_posting posting = {world, post_send, post_receives, poll_queue, nothing, nothing};
	struct verbs_owner owner = {world, end, pin, unpin};
	struct verbs_config config = {
		1,    FUZZ_CONNECTIONS, &channel, connections, WINDOW, RECEIVES, SENDS, 3, SLOT,
		RING, SILENT_NS};
	struct verbs_wire *wire;

	channel = eventfd(0, EFD_CLOEXEC);
	completed = polled = 0;
	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++) {
		struct pair *pair = &pairs[i];

		*pair = (struct pair){.memory = malloc(bytes), .is_open = true};
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair->sockets))
			abort();
		for (u32 slot = 0; slot < RECEIVES; slot++)
			pair->slots[pair->end++] = slot;
		connections[i] = (struct verbs_connection_config){.queue_pair = i,
								  .socket = pair->sockets[0],
								  .gid_file = "/dev/null",
								  .gid = "",
								  .memory = pair->memory};
	}
	world->wire = wire = verbs_wire_open(&config, &posting, &owner);
	if (!wire)
		abort();
	/* The peers have announced all memory. */
	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++)
		for (u32 key = 0; key < VERBS_REGIONS; key++)
			wire->connection[i].there[key].bytes = 1ULL << 40;
	return verbs_wire_operations();
}

static void close_wire(struct world *world)
{
	verbs_wire_close(world->wire);
	close(channel);
	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++) {
		close(pairs[i].sockets[0]);
		if (pairs[i].sockets[1] >= 0)
			close(pairs[i].sockets[1]);
		free(pairs[i].memory);
	}
}

/* The device sends what is posted, and reads its memory. */
static void send_posted(struct world *world, u32 connection)
{
	struct pair *pair = &pairs[connection];

	while (pair->is_open && !pair->is_held && pair->delivered != pair->requested) {
		const struct verbs_request *request = &pair->requests[pair->delivered++ % (SENDS + 1)];
		const u8 *data = (u8 *)(uintptr_t)request->address;

		for (u32 i = 0; i < request->bytes && !core_failure(world->core); i++)
			sink ^= data[i];
		pair->paid += request->kind == VERBS_WRITE ||
			      (request->kind == VERBS_SEND && data[0] != VERBS_CREDIT);
		if (request->is_signalled || pair->status)
			complete(connection, (struct verbs_completion){.number = request->number,
								       .outcome = VERBS_SENT,
								       .status = pair->status});
	}
}

static void transfer(struct world *world)
{
	verbs_wire_operations()->flush(world->wire, world->core, world->now_ns);
	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++)
		send_posted(world, i);
	verbs_wire_operations()->progress(world->wire, world->core, world->now_ns);
}

/* A receive for what arrives; false if the peer has to wait. */
static bool take_receive(struct pair *pair, u32 *slot)
{
	if (!pair->is_open || pair->first == pair->end)
		return false;
	*slot = pair->slots[pair->first++ % RECEIVES];
	return true;
}

static void send_bytes(struct world *world, u32 connection, const u8 *header, const u8 *bytes, u32 length)
{
	struct pair *pair = &pairs[connection];
	u32 before = header ? VERBS_HEADER : 0, slot;

	if (before + length <= SLOT && take_receive(pair, &slot)) {
		if (header)
			memcpy(pair->memory + slot * SLOT, header, VERBS_HEADER);
		if (length)
			memcpy(pair->memory + slot * SLOT + before, bytes, length);
		complete(connection, (struct verbs_completion){.number = slot,
							       .outcome = VERBS_RECEIVED,
							       .bytes = before + length});
	}
	transfer(world);
}

static void message(struct world *world, u32 connection, const u8 *bytes, u32 length)
{
	u8 header[VERBS_HEADER] = {VERBS_MESSAGE};
	u32 choice = choose(world, 1);

	if (choice >= 0xe0)
		header[0] = choice & 7;
	verbs_put(header + 8, pairs[connection].paid + (choice >= 0xf8), 8);
	send_bytes(world, connection, header, bytes, length);
}

static void raw(struct world *world, u32 connection, const u8 *bytes, u32 length)
{
	send_bytes(world, connection, NULL, bytes, length);
}

/* As a device does: into registered memory only; arrays of failed calls stay registered, and are not freed.
 */
static void write_region(struct world *world, u32 connection, wire_key key, u64 offset, u32 bytes,
			 u32 immediate)
{
	struct verbs_wire *wire = world->wire;
	const struct verbs_region *region = &wire->regions[key % VERBS_REGIONS];
	u32 slot;

	if (take_receive(&pairs[connection], &slot)) {
		struct verbs_completion done = {
			.number = slot, .outcome = VERBS_WRITTEN, .immediate = immediate};

		if (key >= VERBS_REGIONS || !region->memory || bytes > region->bytes ||
		    offset > region->bytes - bytes)
			done.status = ACCESS_ERROR;
		else if (!core_failure(world->core))
			memset(region->memory + offset, 2, bytes);
		complete(connection, done);
	}
	transfer(world);
}

static void hang_up(struct world *world, u32 connection)
{
	struct pair *pair = &pairs[connection];
	u8 words[12] = "bye.";

	words[4] = choose(world, 1);
	if (pair->sockets[1] >= 0) {
		send(pair->sockets[1], words, words[4] % sizeof(words) + 1, MSG_NOSIGNAL);
		close(pair->sockets[1]);
	}
	pair->sockets[1] = -1;
	transfer(world);
}

/* The device of a connection stops or continues to send, or fails. */
static void progress(struct world *world)
{
	u32 choice = choose(world, 1), connection = choice % FUZZ_CONNECTIONS;

	pairs[connection].is_held = choice >= 0x80 && choice < 0xfc;
	pairs[connection].status = choice >= 0xfc ? choice : 0;
	transfer(world);
}

const struct target target = {
	.open = open_wire,
	.close = close_wire,
	.message = message,
	.write = write_region,
	.raw = raw,
	.hang_up = hang_up,
	.progress = progress,
};
