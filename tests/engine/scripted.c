// SPDX-License-Identifier: Apache-2.0
#include "scripted.h"

#include <stdlib.h>
#include <string.h>

#include "engine/wire/wire.h"

#define CONNECTIONS 64
#define REGIONS     4096
#define QUEUE       1024

struct item {
	bool is_write;
	const u8 *data; /* of a write: read when it is delivered, as a NIC does */
	u8 *copy;       /* of a message */
	u32 bytes;
	wire_key key;
	u64 offset;
	u32 immediate;
};

/* Items that wait, in order, from `first` on; those before it are delivered and not yet reported as sent. */
struct queue {
	struct item items[QUEUE];
	u32 reported, first, end;
	bool is_cut, is_closed, holds_writes;
	u32 peer, peer_connection;
};

struct region {
	u8 *memory;
	u64 bytes;
};

struct node {
	struct world *world;
	u32 rank, connections;
	struct core *core;
	struct queue *queues;
	struct region regions[REGIONS];
	u32 next_key;
};

struct world {
	struct node nodes[SCRIPTED_RANKS];
	u32 ranks, limit;
	u64 seed, now_ns;
};

static u32 draw(struct world *world, u32 below)
{
	world->seed = world->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(world->seed >> 33) % below;
}

static struct item *room_for(struct node *node, u32 connection)
{
	struct queue *queue = &node->queues[connection];

	if (queue->end - queue->reported >= node->world->limit)
		return NULL;
	return &queue->items[queue->end++ % QUEUE];
}

static bool post_write(void *handle, u32 connection, const void *data, u32 bytes, wire_key key, u64 offset,
		       u32 immediate)
{
	struct node *node = handle;
	struct item *item = node->queues[connection].holds_writes ? NULL : room_for(handle, connection);

	if (!item)
		return false;
	*item = (struct item){true, data, NULL, bytes, key, offset, immediate};
	return true;
}

static bool post_message(void *handle, u32 connection, const void *header, u32 header_bytes,
			 const void *payload, u32 payload_bytes)
{
	struct item *item = room_for(handle, connection);

	if (!item)
		return false;
	*item = (struct item){.copy = malloc(header_bytes + payload_bytes + 1),
			      .bytes = header_bytes + payload_bytes};
	memcpy(item->copy, header, header_bytes);
	if (payload_bytes)
		memcpy(item->copy + header_bytes, payload, payload_bytes);
	return true;
}

static wire_key register_memory(void *handle, void *memory, u64 bytes)
{
	struct node *node = handle;

	if (node->next_key + 1 >= REGIONS)
		node->next_key = 0;
	while (node->regions[++node->next_key].memory)
		;
	node->regions[node->next_key] = (struct region){memory, bytes};
	return node->next_key;
}

static void deregister_memory(void *handle, wire_key key)
{
	struct node *node = handle;

	node->regions[key].memory = NULL;
}

static void abandon(void *handle)
{
	struct node *node = handle;

	for (u32 i = 0; i < node->connections; i++) {
		struct queue *queue = &node->queues[i];
		u32 kept = queue->first;

		for (u32 at = queue->first; at != queue->end; at++)
			if (!queue->items[at % QUEUE].is_write)
				queue->items[kept++ % QUEUE] = queue->items[at % QUEUE];
		queue->end = kept;
	}
}

static const struct wire_operations operations = {
	.post_write = post_write,
	.post_message = post_message,
	.register_memory = register_memory,
	.deregister_memory = deregister_memory,
	.abandon = abandon,
};

struct world *world_create(u32 ranks, u64 seed)
{
	struct world *world = calloc(1, sizeof(*world));

	world->ranks = ranks;
	world->seed = seed * 2654435761U + 1;
	world->limit = QUEUE;
	world->now_ns = 1000000000;
	return world;
}

static void free_queue(struct queue *queue)
{
	for (u32 at = queue->first; at != queue->end; at++)
		free(queue->items[at % QUEUE].copy);
}

void world_destroy(struct world *world)
{
	for (u32 rank = 0; rank < world->ranks; rank++) {
		struct node *node = &world->nodes[rank];

		for (u32 i = 0; i < node->connections; i++)
			free_queue(&node->queues[i]);
		free(node->queues);
		if (node->core)
			core_destroy(node->core);
	}
	free(world);
}

struct core *world_add(struct world *world, u32 rank, const struct core_config *config, const u32 *links)
{
	struct node *node = &world->nodes[rank];

	node->world = world;
	node->rank = rank;
	node->connections = config->connections;
	node->queues = calloc(config->connections + 1, sizeof(*node->queues));
	for (u32 i = 0; i < config->connections; i++) {
		node->queues[i].peer = links[2 * i];
		node->queues[i].peer_connection = links[2 * i + 1];
	}
	node->core = core_create(config, &operations, node);
	return node->core;
}

bool world_start(struct world *world)
{
	for (u32 rank = 0; rank < world->ranks; rank++)
		if (!core_start(world->nodes[rank].core, world->now_ns))
			return false;
	return true;
}

static void deliver(struct world *world, struct queue *queue)
{
	struct item *item = &queue->items[queue->first++ % QUEUE];
	struct node *peer = &world->nodes[queue->peer];

	if (!item->is_write) {
		/* A separate allocation: a sanitizer detects reads beyond its end or after its release. */
		u8 *bytes = malloc(item->bytes + 1);

		memcpy(bytes, item->copy, item->bytes);
		core_on_message(peer->core, queue->peer_connection, bytes, item->bytes, world->now_ns);
		free(bytes);
		free(item->copy);
		item->copy = NULL;
		return;
	}
	if (!peer->regions[item->key].memory || item->offset + item->bytes > peer->regions[item->key].bytes) {
		core_on_closed(peer->core, queue->peer_connection, "it wrote out of bounds");
		return;
	}
	memcpy(peer->regions[item->key].memory + item->offset, item->data, item->bytes);
	core_on_written(peer->core, queue->peer_connection, item->immediate, world->now_ns);
}

/* Something has been delivered, and its sender learns so now or later. */
static void report(struct node *node, u32 connection)
{
	struct queue *queue = &node->queues[connection];
	struct item *item = &queue->items[queue->reported++ % QUEUE];

	if (item->is_write)
		core_on_sent(node->core, connection, item->immediate);
}

bool world_step(struct world *world)
{
	u32 start = draw(world, 1 << 16);
	u32 all = 0;

	for (u32 rank = 0; rank < world->ranks; rank++)
		all += world->nodes[rank].connections;
	for (u32 i = 0; i < all; i++) {
		u32 at = (start + i) % all, rank = 0;
		struct node *node;
		struct queue *queue;

		while (at >= world->nodes[rank].connections)
			at -= world->nodes[rank++].connections;
		node = &world->nodes[rank];
		queue = &node->queues[at];
		if (queue->reported != queue->first && (draw(world, 2) || queue->first == queue->end)) {
			report(node, at);
		} else if (queue->first != queue->end && !queue->is_cut) {
			if (queue->is_closed)
				queue->first++;
			else
				deliver(world, queue);
			core_push(world->nodes[queue->peer].core);
		} else {
			continue;
		}
		core_push(node->core);
		return true;
	}
	return false;
}

void world_push(struct world *world, u32 rank)
{
	core_push(world->nodes[rank].core);
}

void world_pass(struct world *world, u64 ns)
{
	world->now_ns += ns;
	for (u32 rank = 0; rank < world->ranks; rank++) {
		core_tick(world->nodes[rank].core, world->now_ns);
		core_push(world->nodes[rank].core);
	}
}

u64 world_now(const struct world *world)
{
	return world->now_ns;
}

void world_cut(struct world *world, u32 rank, u32 connection, bool is_cut)
{
	world->nodes[rank].queues[connection].is_cut = is_cut;
}

bool world_drop(struct world *world, u32 rank, u32 connection)
{
	struct queue *queue = &world->nodes[rank].queues[connection];

	for (u32 at = queue->first; at != queue->end; at++) {
		if (!queue->items[at % QUEUE].is_write)
			continue;
		core_on_sent(world->nodes[rank].core, connection, queue->items[at % QUEUE].immediate);
		for (; at + 1 != queue->end; at++)
			queue->items[at % QUEUE] = queue->items[(at + 1) % QUEUE];
		queue->end--;
		return true;
	}
	return false;
}

void world_hold_writes(struct world *world, u32 rank, u32 connection)
{
	world->nodes[rank].queues[connection].holds_writes = true;
}

void world_close(struct world *world, u32 rank, u32 connection, const char *why)
{
	struct queue *queue = &world->nodes[rank].queues[connection];

	queue->is_closed = true;
	core_on_closed(world->nodes[queue->peer].core, queue->peer_connection, why);
	core_push(world->nodes[queue->peer].core);
}

void world_inject(struct world *world, u32 rank, u32 connection, const u8 *bytes, u32 length)
{
	u8 *copy = malloc(length + 1);

	memcpy(copy, bytes, length);
	core_on_message(world->nodes[rank].core, connection, copy, length, world->now_ns);
	core_push(world->nodes[rank].core);
	free(copy);
}

void world_inject_write(struct world *world, u32 rank, u32 connection, u32 immediate)
{
	core_on_written(world->nodes[rank].core, connection, immediate, world->now_ns);
	core_push(world->nodes[rank].core);
}

u32 world_regions(const struct world *world, u32 rank)
{
	u32 count = 0;

	for (u32 key = 0; key < REGIONS; key++)
		count += world->nodes[rank].regions[key].memory != NULL;
	return count;
}

u32 world_limit(struct world *world, u32 items)
{
	return world->limit = items < QUEUE ? items : QUEUE;
}
