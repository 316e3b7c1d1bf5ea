// SPDX-License-Identifier: Apache-2.0
/* The verbs wire: all its connections, and sleeping on their devices. */
#define _GNU_SOURCE /* ppoll() */
#include "engine/wire/verbs.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "engine/core/core.h"
#include "engine/wire/verbs_connection.h"

#define EVENTS 64

static bool watch(struct verbs_wire *wire, int fd, u32 number)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};

	return !epoll_ctl(wire->epoll, EPOLL_CTL_ADD, fd, &event);
}

static bool open_connection(struct verbs_wire *wire, u32 number, const struct verbs_config *config)
{
	const struct verbs_connection_config *from = &config->connection[number];
	struct verbs_connection *self = &wire->connection[number];

	self->is_open = true;
	self->device = from->device;
	self->queue_pair = from->queue_pair;
	self->socket = from->socket;
	self->gid_file = strdup(from->gid_file);
	self->gid = strdup(from->gid);
	self->slots = from->memory;
	self->ring = self->slots + (u64)config->receives * config->slot_bytes;
	self->credits = self->ring + config->ring_bytes;
	self->local_key = from->local_key;
	self->inline_bytes = from->inline_bytes;
	self->landing_address = from->landing_address;
	self->landing_key = from->landing_key;
	self->used_slots = calloc(config->receives, sizeof(*self->used_slots));
	self->there = calloc(VERBS_REGIONS, sizeof(*self->there));
	verbs_flow_begin(&self->flow, config->window, config->sends);
	return self->gid_file && self->gid && self->used_slots && self->there &&
	       watch(wire, self->socket, wire->devices + number);
}

static bool allocate(struct verbs_wire *wire)
{
	wire->epoll = epoll_create1(EPOLL_CLOEXEC);
	wire->connection = calloc(wire->connections + 1, sizeof(*wire->connection));
	wire->is_armed = calloc(wire->devices + 1, sizeof(*wire->is_armed));
	wire->local_keys = calloc((u64)VERBS_REGIONS * wire->devices + 1, sizeof(*wire->local_keys));
	wire->remote_keys = calloc((u64)VERBS_REGIONS * wire->devices + 1, sizeof(*wire->remote_keys));
	return wire->epoll >= 0 && wire->connection && wire->is_armed && wire->local_keys &&
	       wire->remote_keys;
}

struct verbs_wire *verbs_wire_open(const struct verbs_config *config, const struct verbs_posting *posting,
				   const struct verbs_owner *owner)
{
	struct verbs_wire *wire = calloc(1, sizeof(*wire));
	bool is_open;

	if (!wire)
		return NULL;
	wire->posting = *posting;
	wire->owner = *owner;
	wire->devices = config->devices;
	wire->connections = config->connections;
	wire->receives = config->receives;
	wire->signal_every = config->signal_every;
	wire->slot_bytes = config->slot_bytes;
	wire->ring_bytes = config->ring_bytes;
	wire->silent_ns = config->silent_ns;
	pthread_mutex_init(&wire->regions_lock, NULL);
	is_open = allocate(wire) && config->sends <= VERBS_SENDS_MAX;
	for (u32 i = 0; is_open && i < wire->devices; i++)
		is_open = watch(wire, config->channels[i], i);
	for (u32 i = 0; is_open && i < wire->connections; i++)
		is_open = open_connection(wire, i, config);
	if (is_open)
		return wire;
	verbs_wire_close(wire);
	return NULL;
}

void verbs_wire_close(struct verbs_wire *wire)
{
	for (u32 i = 0; wire->connection && i < wire->connections; i++) {
		free(wire->connection[i].gid_file);
		free(wire->connection[i].gid);
		free(wire->connection[i].used_slots);
		free(wire->connection[i].there);
	}
	if (wire->epoll >= 0)
		close(wire->epoll);
	pthread_mutex_destroy(&wire->regions_lock);
	free(wire->connection);
	free(wire->is_armed);
	free(wire->local_keys);
	free(wire->remote_keys);
	free(wire);
}

static bool post_write(void *handle, u32 connection, const void *data, u32 bytes, wire_key key, u64 offset,
		       u32 immediate)
{
	struct verbs_wire *wire = handle;

	return verbs_queue_write(&wire->connection[connection], data, bytes, key, offset, immediate);
}

static bool post_message(void *handle, u32 connection, const void *header, u32 header_bytes,
			 const void *payload, u32 payload_bytes)
{
	struct verbs_wire *wire = handle;

	return verbs_queue_message(wire, &wire->connection[connection], header, header_bytes, payload,
				   payload_bytes);
}

static wire_key register_memory(void *wire, void *memory, u64 bytes)
{
	return verbs_register(wire, memory, bytes);
}

static void deregister_memory(void *wire, wire_key key)
{
	verbs_deregister(wire, key);
}

static void flush(void *handle, struct core *core, u64 now_ns)
{
	struct verbs_wire *wire = handle;

	for (u32 i = 0; i < wire->connections; i++)
		if (wire->connection[i].is_open)
			verbs_send(wire, i, core, now_ns);
}

static void take_events(struct verbs_wire *wire)
{
	struct epoll_event events[EVENTS];
	int count = epoll_wait(wire->epoll, events, EVENTS, 0);

	for (int i = 0; i < count; i++) {
		u32 number = events[i].data.u32;

		if (number < wire->devices) {
			wire->is_armed[number] = false;
			wire->posting.take_event(wire->posting.context, number);
		} else {
			wire->connection[number - wire->devices].has_news = true;
		}
	}
}

/* A completion before the request makes no event: request a notification, then poll once more. */
static void arm(struct verbs_wire *wire, struct core *core, u64 now_ns)
{
	for (u32 i = 0; i < wire->devices; i++) {
		if (wire->is_armed[i])
			continue;
		wire->is_armed[i] = !wire->posting.arm(wire->posting.context, i);
		wire->calls++;
		verbs_collect(wire, i, core, now_ns);
	}
}

static void progress(void *handle, struct core *core, u64 now_ns)
{
	struct verbs_wire *wire = handle;

	take_events(wire);
	for (u32 i = 0; i < wire->devices; i++)
		verbs_collect(wire, i, core, now_ns);
	/* The last messages of a peer are in the completion queue before it closes its TCP connection. */
	for (u32 i = 0; i < wire->connections; i++)
		if (wire->connection[i].has_news)
			verbs_hear(wire, i, core);
	arm(wire, core, now_ns);
	verbs_look(wire, core, now_ns);
}

static u64 clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void wait_for(void *handle, int kick, u64 timeout_ns)
{
	struct verbs_wire *wire = handle;
	struct pollfd both[2] = {{wire->epoll, POLLIN, 0}, {kick, POLLIN, 0}};
	u64 now_ns = clock_now(), look_ns = wire->next_look_ns > now_ns ? wire->next_look_ns - now_ns : 0;
	u64 least_ns = timeout_ns < look_ns ? timeout_ns : look_ns;
	struct timespec timeout = {least_ns / 1000000000, least_ns % 1000000000};

	ppoll(both, 2, &timeout, NULL);
}

static void abandon(void *handle)
{
	struct verbs_wire *wire = handle;

	for (u32 i = 0; i < wire->connections; i++)
		verbs_abandon(&wire->connection[i]);
	verbs_abandon_regions(wire);
}

static bool is_drained(void *handle)
{
	struct verbs_wire *wire = handle;

	for (u32 i = 0; i < wire->connections; i++) {
		const struct verbs_connection *self = &wire->connection[i];

		if (self->is_open &&
		    (self->first != self->end || self->flow.posted != self->flow.acknowledged))
			return false;
	}
	return true;
}

static const struct wire_operations operations = {
	.post_write = post_write,
	.post_message = post_message,
	.register_memory = register_memory,
	.deregister_memory = deregister_memory,
	.flush = flush,
	.progress = progress,
	.wait = wait_for,
	.abandon = abandon,
	.is_drained = is_drained,
};

const struct wire_operations *verbs_wire_operations(void)
{
	return &operations;
}

u64 verbs_wire_arrived(const struct verbs_wire *wire, u32 connection)
{
	return wire->connection[connection].flow.arrived;
}

u64 verbs_wire_calls(const struct verbs_wire *wire)
{
	return wire->calls;
}
