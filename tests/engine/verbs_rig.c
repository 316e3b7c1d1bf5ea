// SPDX-License-Identifier: Apache-2.0
#include "verbs_rig.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/wire/verbs.h"
#include "engine/wire/wire.h"

#define SENDS_MAX 64
#define RECEIVES  64
#define QUEUE     4096 /* completions */
#define REGIONS   4096
#define PAUSE_US  50

struct rig_pair {
	struct rig_rank *owner;
	u32 number, device;
	bool is_open, is_cut, loses_acknowledgements;
	u32 status;
	struct rig_pair *peer;
	struct verbs_request requests[SENDS_MAX + 1];
	u8 *inline_data[SENDS_MAX + 1];
	u64 first, freed, end; /* delivered up to `first`; `freed`: known to be so by a completion */
	u32 receives[RECEIVES];
	u32 first_receive, end_receive;
	u8 *memory;
	int sockets[2]; /* the wire's end, and the test's */
};

struct rig_device {
	struct verbs_completion queue[QUEUE];
	u32 first, end;
	int event;
	bool is_armed;
};

struct rig_region {
	u8 *memory;
	u64 bytes;
};

struct rig_rank {
	struct rig *rig;
	struct verbs_wire *wire;
	u32 number, devices, connections;
	struct rig_pair pairs[RIG_CONNECTIONS];
	struct rig_device device[RIG_CONNECTIONS];
	struct rig_region regions[REGIONS]; /* by key; their keys at the devices are RKEY() */
};

struct rig {
	u32 window, slot_bytes, ring_bytes;
	u64 silent_ns, seed;
	char *gid_file;
	pthread_mutex_t lock;
	pthread_t thread;
	bool stops, discards_writes;
	struct rig_counts counts;
	struct rig_rank *ranks[RIG_RANKS];
};

#define RKEY(rank, key, device) (0x40000000 | (rank) << 20 | (key) << 4 | (device))
#define OWN_KEY                 7 /* of a pair's memory for messages */
#define LANDING                 0x1234

static u32 draw(struct rig *rig, u32 below)
{
	rig->seed = rig->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(rig->seed >> 33) % below;
}

/* The devices. All with the lock held. */

static void complete(struct rig_pair *pair, struct verbs_completion completion)
{
	struct rig_device *device = &pair->owner->device[pair->device];

	completion.queue_pair = pair->number;
	if (!pair->is_open)
		return;
	if (device->end - device->first == QUEUE) {
		pair->owner->rig->counts.overflows++;
		return;
	}
	device->queue[device->end++ % QUEUE] = completion;
	if (device->is_armed)
		eventfd_write(device->event, 1);
	device->is_armed = false;
}

/* The memory that a remote key allows to be written. */
static u8 *target(struct rig_rank *rank, u32 device, const struct verbs_request *request)
{
	u32 key = request->remote_key >> 4 & 0xffff;
	const struct rig_region *region = &rank->regions[key % REGIONS];
	u64 offset = request->remote_address - (uintptr_t)region->memory;

	if (request->remote_key != RKEY(rank->number, key, device) || key >= REGIONS || !region->memory ||
	    offset > region->bytes || request->bytes > region->bytes - offset)
		return NULL;
	return region->memory + offset;
}

static bool is_readable(const struct rig_pair *pair, const struct verbs_request *request)
{
	u32 key = request->local_key >> 4 & 0xffff;
	const struct rig_region *region = &pair->owner->regions[key % REGIONS];
	u64 offset = request->address - (uintptr_t)region->memory;

	if (request->local_key == OWN_KEY || !request->bytes)
		return true;
	return request->local_key == RKEY(pair->owner->number, key, pair->device) && region->memory &&
	       offset <= region->bytes && request->bytes <= region->bytes - offset;
}

/* The request takes effect at the peer; false if it has to wait. `status`: 0, or why it failed. */
static bool arrive(struct rig_pair *pair, const struct verbs_request *request, const u8 *data, u32 *status)
{
	struct rig_pair *peer = pair->peer;
	struct rig *rig = pair->owner->rig;
	u32 slot;
	u8 *to;

	*status = pair->status;
	if (*status)
		return true;
	if (!peer->is_open)
		return false;
	if (request->kind == VERBS_PROBE) {
		rig->counts.probes++;
		rig->counts.violations += request->remote_address != LANDING;
		return true;
	}
	if (peer->first_receive == peer->end_receive) {
		rig->counts.rnr++;
		return false;
	}
	slot = peer->receives[peer->first_receive % RECEIVES];
	if (request->kind == VERBS_WRITE) {
		to = target(peer->owner, peer->device, request);
		if (!to || !is_readable(pair, request)) {
			rig->counts.violations++;
			*status = 10;
			return true;
		}
		rig->counts.writes++;
		if (!rig->discards_writes)
			memcpy(to, data, request->bytes);
	} else {
		rig->counts.sends++;
		rig->counts.credits += !data[0];
		memcpy(peer->memory + (u64)slot * rig->slot_bytes, data, request->bytes);
	}
	peer->first_receive++;
	complete(peer, (struct verbs_completion){.number = slot,
						 .outcome = request->kind == VERBS_WRITE ? VERBS_WRITTEN
											 : VERBS_RECEIVED,
						 .bytes = request->bytes,
						 .immediate = request->immediate});
	return true;
}

static bool deliver(struct rig_pair *pair)
{
	u64 at = pair->first % (SENDS_MAX + 1);
	const struct verbs_request *request = &pair->requests[at];
	const u8 *data = pair->inline_data[at] ? pair->inline_data[at] : (u8 *)(uintptr_t)request->address;
	u32 status;

	if (pair->first == pair->end || pair->is_cut || !pair->is_open ||
	    !arrive(pair, request, data, &status))
		return false;
	free(pair->inline_data[at]);
	pair->inline_data[at] = NULL;
	pair->first++;
	if ((request->is_signalled || status) && !pair->loses_acknowledgements) {
		pair->freed = pair->first;
		pair->owner->rig->counts.signalled++;
		complete(pair, (struct verbs_completion){
				       .number = request->number, .outcome = VERBS_SENT, .status = status});
	}
	return true;
}

static void *run(void *argument)
{
	struct rig *rig = argument;
	bool stops = false;

	while (!stops) {
		pthread_mutex_lock(&rig->lock);
		for (u32 i = 0; i < RIG_RANKS; i++) {
			struct rig_rank *rank = rig->ranks[i];

			for (u32 j = 0; rank && j < rank->connections; j++)
				for (u32 k = draw(rig, 8); k && deliver(&rank->pairs[j]); k--)
					;
		}
		stops = rig->stops;
		pthread_mutex_unlock(&rig->lock);
		usleep(PAUSE_US);
	}
	return NULL;
}

/* struct verbs_posting */

static int post_one(struct rig_pair *pair, const struct verbs_request *request)
{
	u64 at = pair->end % (SENDS_MAX + 1);

	/* One more than the window's sends: for a probe. */
	if (pair->end - pair->freed > 2 * pair->owner->rig->window) {
		pair->owner->rig->counts.overflows++;
		return ENOMEM;
	}
	pair->requests[at] = *request;
	if (request->is_inline) {
		pair->inline_data[at] = malloc(request->bytes + 1);
		memcpy(pair->inline_data[at], (u8 *)(uintptr_t)request->address, request->bytes);
	}
	pair->end++;
	return 0;
}

static int post_send(void *context, u32 connection, const struct verbs_request *requests, u32 count)
{
	struct rig_rank *rank = context;
	int error = 0;

	pthread_mutex_lock(&rank->rig->lock);
	for (u32 i = 0; i < count && !error; i++)
		error = post_one(&rank->pairs[connection], &requests[i]);
	pthread_mutex_unlock(&rank->rig->lock);
	return error;
}

static int post_receives(void *context, u32 connection, const u32 *slots, u32 count)
{
	struct rig_rank *rank = context;
	struct rig_pair *pair = &rank->pairs[connection];

	pthread_mutex_lock(&rank->rig->lock);
	for (u32 i = 0; i < count; i++)
		pair->receives[pair->end_receive++ % RECEIVES] = slots[i];
	rank->rig->counts.overflows += pair->end_receive - pair->first_receive > rank->rig->window + 2;
	pthread_mutex_unlock(&rank->rig->lock);
	return 0;
}

static int poll_queue(void *context, u32 number, struct verbs_completion *completions, u32 most, u32 *count)
{
	struct rig_rank *rank = context;
	struct rig_device *device = &rank->device[number];

	pthread_mutex_lock(&rank->rig->lock);
	for (*count = 0; *count < most && device->first != device->end; ++*count)
		completions[*count] = device->queue[device->first++ % QUEUE];
	pthread_mutex_unlock(&rank->rig->lock);
	return 0;
}

static int arm(void *context, u32 number)
{
	struct rig_rank *rank = context;

	pthread_mutex_lock(&rank->rig->lock);
	rank->device[number].is_armed = true;
	pthread_mutex_unlock(&rank->rig->lock);
	return 0;
}

static int take_event(void *context, u32 number)
{
	struct rig_rank *rank = context;
	eventfd_t value;

	return eventfd_read(rank->device[number].event, &value) ? errno : 0;
}

/* struct verbs_owner */

static void end(void *context, u32 connection, u32 reason, u64 first, u64 second, char *why)
{
	struct rig_rank *rank = context;

	pthread_mutex_lock(&rank->rig->lock);
	rank->pairs[connection].is_open = false;
	pthread_mutex_unlock(&rank->rig->lock);
	if (reason != VERBS_END_WORDS)
		snprintf(why, VERBS_WORDS, "reason %u: %llu, %llu", reason, first > 1000000 ? 1000000 : first,
			 second);
}

static u32 pin(void *context, void *memory, u64 bytes)
{
	struct rig_rank *rank = context;
	u32 local[RIG_CONNECTIONS], key = 1;

	pthread_mutex_lock(&rank->rig->lock);
	while (rank->regions[key].memory)
		key++;
	rank->regions[key] = (struct rig_region){memory, bytes};
	rank->rig->counts.pinned++;
	pthread_mutex_unlock(&rank->rig->lock);
	for (u32 i = 0; i < rank->devices; i++)
		local[i] = RKEY(rank->number, key, i);
	verbs_wire_add_region(rank->wire, key, memory, bytes, local, local);
	return key;
}

static void unpin(void *context, u32 key)
{
	struct rig_rank *rank = context;
	bool is_removed = verbs_wire_remove_region(rank->wire, key, true);

	pthread_mutex_lock(&rank->rig->lock);
	rank->rig->counts.violations += !is_removed;
	rank->regions[key].memory = NULL;
	rank->rig->counts.pinned--;
	pthread_mutex_unlock(&rank->rig->lock);
}

/* For the tests. */

struct rig *rig_create(u32 window, u32 slot_bytes, u32 ring_bytes, u64 silent_ns, const char *gid_file,
		       u64 seed)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	rig->window = window;
	rig->slot_bytes = slot_bytes;
	rig->ring_bytes = ring_bytes;
	rig->silent_ns = silent_ns;
	rig->gid_file = strdup(gid_file);
	rig->seed = seed * 2654435761U + 1;
	pthread_mutex_init(&rig->lock, NULL);
	return rig;
}

static void open_pair(struct rig_rank *rank, u32 number, struct verbs_connection_config *config)
{
	struct rig *rig = rank->rig;
	struct rig_pair *pair = &rank->pairs[number];
	u64 bytes =
		(u64)(rig->window + 2) * rig->slot_bytes + rig->ring_bytes + 2 * rig->window * VERBS_HEADER;

	pair->owner = rank;
	pair->number = 0x100 + number / rank->devices; /* unique on a device only */
	pair->device = number % rank->devices;
	pair->is_open = true;
	pair->memory = calloc(1, bytes);
	for (u32 slot = 0; slot < rig->window + 2; slot++)
		pair->receives[pair->end_receive++] = slot;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair->sockets))
		abort();
	*config = (struct verbs_connection_config){
		.device = pair->device,
		.queue_pair = pair->number,
		.socket = pair->sockets[0],
		.gid_file = rig->gid_file,
		.gid = "gid",
		.memory = pair->memory,
		.local_key = OWN_KEY,
		.inline_bytes = 64,
		.landing_address = LANDING,
	};
}

struct verbs_wire *rig_add(struct rig *rig, u32 number, u32 connections, const u32 *links, u32 devices)
{
	struct rig_rank *rank = calloc(1, sizeof(*rank));
	struct verbs_connection_config pairs[RIG_CONNECTIONS];
	struct verbs_posting posting = {rank, post_send, post_receives, poll_queue, arm, take_event};
	struct verbs_owner owner = {rank, end, pin, unpin};
	int channels[RIG_CONNECTIONS];
	struct verbs_config config = {devices,         connections,     channels,        pairs,
				      rig->window,     rig->window + 2, 2 * rig->window, 5,
				      rig->slot_bytes, rig->ring_bytes, rig->silent_ns};

	*rank = (struct rig_rank){
		.rig = rig, .number = number, .devices = devices, .connections = connections};
	rig->ranks[number] = rank;
	for (u32 i = 0; i < devices; i++)
		channels[i] = rank->device[i].event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (u32 i = 0; i < connections; i++) {
		struct rig_rank *peer = rig->ranks[links[2 * i]];

		open_pair(rank, i, &pairs[i]);
		if (!peer || peer == rank)
			continue;
		rank->pairs[i].peer = &peer->pairs[links[2 * i + 1]];
		peer->pairs[links[2 * i + 1]].peer = &rank->pairs[i];
	}
	rank->wire = verbs_wire_open(&config, &posting, &owner);
	return rank->wire;
}

void rig_start(struct rig *rig)
{
	if (pthread_create(&rig->thread, NULL, run, rig))
		abort();
}

void rig_discard_writes(struct rig *rig)
{
	pthread_mutex_lock(&rig->lock);
	rig->discards_writes = true;
	pthread_mutex_unlock(&rig->lock);
}

static void free_rank(struct rig_rank *rank)
{
	for (u32 i = 0; i < rank->connections; i++) {
		struct rig_pair *pair = &rank->pairs[i];

		for (u32 at = 0; at <= SENDS_MAX; at++)
			free(pair->inline_data[at]);
		free(pair->memory);
		close(pair->sockets[0]);
		close(pair->sockets[1]);
	}
	for (u32 i = 0; i < rank->devices; i++)
		close(rank->device[i].event);
	free(rank);
}

void rig_destroy(struct rig *rig)
{
	pthread_mutex_lock(&rig->lock);
	rig->stops = true;
	pthread_mutex_unlock(&rig->lock);
	pthread_join(rig->thread, NULL);
	for (u32 i = 0; i < RIG_RANKS; i++)
		if (rig->ranks[i])
			free_rank(rig->ranks[i]);
	free(rig->gid_file);
	free(rig);
}

void rig_cut(struct rig *rig, u32 rank, u32 connection, bool is_cut)
{
	pthread_mutex_lock(&rig->lock);
	rig->ranks[rank]->pairs[connection].is_cut = is_cut;
	pthread_mutex_unlock(&rig->lock);
}

void rig_lose_acknowledgements(struct rig *rig, u32 rank, u32 connection)
{
	pthread_mutex_lock(&rig->lock);
	rig->ranks[rank]->pairs[connection].loses_acknowledgements = true;
	pthread_mutex_unlock(&rig->lock);
}

void rig_fail(struct rig *rig, u32 rank, u32 connection, u32 status)
{
	pthread_mutex_lock(&rig->lock);
	rig->ranks[rank]->pairs[connection].status = status;
	pthread_mutex_unlock(&rig->lock);
}

void rig_close(struct rig *rig, u32 rank, u32 connection, long long arrived)
{
	struct rig_pair *pair;
	u8 words[12] = "bye.";

	pthread_mutex_lock(&rig->lock);
	pair = &rig->ranks[rank]->pairs[connection];
	pair->is_open = false;
	for (u32 i = 0; i < 8; i++)
		words[4 + i] = (u64)arrived >> 8 * i;
	if (arrived >= 0)
		send(pair->peer->sockets[1], words, sizeof(words), MSG_NOSIGNAL);
	shutdown(pair->peer->sockets[1], SHUT_WR);
	pthread_mutex_unlock(&rig->lock);
}

bool rig_inject(struct rig *rig, u32 rank, u32 connection, const u8 *bytes, u32 length)
{
	struct rig_pair *peer;
	bool is_there;

	pthread_mutex_lock(&rig->lock);
	peer = rig->ranks[rank]->pairs[connection].peer;
	is_there = peer->is_open && peer->first_receive != peer->end_receive;
	if (is_there) {
		u32 slot = peer->receives[peer->first_receive++ % RECEIVES];

		memcpy(peer->memory + (u64)slot * rig->slot_bytes, bytes, length);
		complete(peer, (struct verbs_completion){
				       .number = slot, .outcome = VERBS_RECEIVED, .bytes = length});
	}
	pthread_mutex_unlock(&rig->lock);
	return is_there;
}

u32 rig_register(struct rig *rig, u32 rank, void *memory, u64 bytes)
{
	return verbs_wire_operations()->register_memory(rig->ranks[rank]->wire, memory, bytes);
}

void rig_deregister(struct rig *rig, u32 rank, u32 key)
{
	verbs_wire_operations()->deregister_memory(rig->ranks[rank]->wire, key);
}

struct rig_counts rig_counts(struct rig *rig)
{
	struct rig_counts counts;

	pthread_mutex_lock(&rig->lock);
	counts = rig->counts;
	pthread_mutex_unlock(&rig->lock);
	return counts;
}

u64 rig_arrived(struct rig *rig, u32 rank, u32 connection)
{
	return verbs_wire_arrived(rig->ranks[rank]->wire, connection);
}
