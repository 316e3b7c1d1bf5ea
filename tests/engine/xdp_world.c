// SPDX-License-Identifier: Apache-2.0
#include "xdp_world.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/core/core_internal.h"
#include "engine/wire/wire.h"
#include "engine/wire/xdp.h"
#include "ports/stack.h"
#include "scripted.h"

#define CONNECTIONS 16
#define FRAMES      4096
#define FRAME_BYTES 512
#define MTU         256
#define FIRST_PSN   0xffff00 /* soon wraps around */

struct frame {
	u8 bytes[FRAME_BYTES];
	u32 length, rank;
};

struct node {
	struct core *core;
	struct xdp_wire *wire;
	struct endpoint *endpoint;
	struct stack *stack;
	struct rc *pairs[CONNECTIONS];
	int sockets[CONNECTIONS];
	u32 peer[CONNECTIONS], peer_connection[CONNECTIONS];
	u32 connections;
	int regions;
	bool has_left;
};

struct world {
	struct node nodes[SCRIPTED_RANKS];
	struct frame air[FRAMES];
	u32 ranks, count; /* of frames under way */
	u32 lost, repeated, delayed;
	u64 seed, now_ns;
};

static const struct wire_operations *xdp;
static struct wire_operations counting; /* the same, with a count of the regions */
static struct world *the_world;

static u32 draw(struct world *world, u32 below)
{
	world->seed = world->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(world->seed >> 33) % below;
}

static struct node *node_of(const void *wire)
{
	u32 rank = 0;

	while (the_world->nodes[rank].wire != wire)
		rank++;
	return &the_world->nodes[rank];
}

static wire_key count_registered(void *wire, void *memory, u64 bytes)
{
	node_of(wire)->regions++;
	return xdp->register_memory(wire, memory, bytes);
}

static void count_deregistered(void *wire, wire_key key)
{
	node_of(wire)->regions--;
	xdp->deregister_memory(wire, key);
}

struct world *world_create(u32 ranks, u64 seed)
{
	struct world *world = calloc(1, sizeof(*world));

	world->ranks = ranks;
	world->seed = seed * 2654435761U + 1;
	world->now_ns = 1000000000;
	xdp = xdp_wire_operations();
	counting = *xdp;
	counting.register_memory = count_registered;
	counting.deregister_memory = count_deregistered;
	return the_world = world;
}

static void close_sockets(struct node *node)
{
	for (u32 i = 0; i < node->connections; i++)
		close(node->sockets[i]);
	node->has_left = true;
}

void world_leave(struct world *world, u32 rank, bool says_so)
{
	struct node *node = &world->nodes[rank];

	if (!says_so)
		close_sockets(node);
	xdp_wire_close(node->wire);
	if (says_so)
		close_sockets(node);
}

void world_destroy(struct world *world)
{
	for (u32 rank = 0; rank < world->ranks; rank++) {
		struct node *node = &world->nodes[rank];

		if (node->core)
			core_destroy(node->core);
		if (!node->has_left)
			world_leave(world, rank, true);
		stack_close(node->stack);
		endpoint_destroy(node->endpoint);
	}
	free(world);
}

/* Every two ends share a socket pair, in place of the handshake's connection. */
static void join_sockets(struct world *world, u32 rank, u32 connection)
{
	struct node *node = &world->nodes[rank], *peer = &world->nodes[node->peer[connection]];
	int both[2];

	if (node->sockets[connection])
		return;
	socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both);
	node->sockets[connection] = both[0];
	peer->sockets[node->peer_connection[connection]] = both[1];
}

/* The core is created in world_start(): its connections need both ends. */
struct core *world_add(struct world *world, u32 rank, const struct core_config *config, const u32 *links)
{
	struct node *node = &world->nodes[rank];

	node->connections = config->connections;
	node->endpoint = endpoint_create(64, 4096, world->seed + rank);
	node->stack = stack_open(node->endpoint);
	for (u32 i = 0; i < config->connections; i++) {
		node->peer[i] = links[2 * i];
		node->peer_connection[i] = links[2 * i + 1];
		node->pairs[i] = rc_create(node->endpoint, XDP_WIRE_DEPTH, XDP_WIRE_DEPTH);
		join_sockets(world, rank, i);
	}
	node->wire = xdp_wire_open(node->stack, node->pairs, node->sockets, node->connections,
				   config->eager_bytes + MESSAGE_HEADER_MAX);
	node->core = node->wire ? core_create(config, &counting, node->wire) : NULL;
	return node->core;
}

static bool connect_pair(struct world *world, u32 rank, u32 connection)
{
	struct node *node = &world->nodes[rank];
	u32 peer = node->peer[connection];
	struct rc_config config;

	rc_defaults(&config, 0);
	config.local_ip = rank + 1;
	config.peer_ip = peer + 1;
	config.peer_qpn = rc_qpn(world->nodes[peer].pairs[node->peer_connection[connection]]);
	config.send_psn = config.receive_psn = FIRST_PSN;
	config.path_mtu = MTU;
	config.window = 8 + rank;
	config.credits = true;
	config.timeout_ns = 1000000;
	config.ack_delay_ns = 20000;
	config.send_ack_delay_ns = 400000;
	return rc_connect(node->pairs[connection], &config, world->now_ns);
}

static void put(struct world *world, u32 rank, const u8 *bytes, u32 length)
{
	struct frame *frame = &world->air[world->count];

	if (world->count == FRAMES)
		abort();
	world->count++;
	memcpy(frame->bytes, bytes, length);
	frame->length = length;
	frame->rank = rank;
}

static void transmit(struct world *world, struct node *node, u32 connection)
{
	u8 bytes[FRAME_BYTES];
	struct span out = {bytes, sizeof(bytes)};
	u32 length;

	while (rc_next_deadline(node->pairs[connection]) <= world->now_ns) {
		length = rc_transmit(node->pairs[connection], &out, 1, world->now_ns);
		if (!length)
			return;
		if (draw(world, 1000000) < world->lost)
			continue;
		put(world, node->peer[connection], bytes, length);
		if (draw(world, 1000000) < world->repeated)
			put(world, node->peer[connection], bytes, length);
	}
}

/* What the engine does when the wire's wait returns. */
static void drive(struct world *world, struct node *node)
{
	if (node->has_left)
		return;
	xdp->progress(node->wire, node->core, world->now_ns);
	core_push(node->core);
	xdp->flush(node->wire, node->core, world->now_ns);
	for (u32 i = 0; i < node->connections; i++)
		transmit(world, node, i);
}

bool world_start(struct world *world)
{
	for (u32 rank = 0; rank < world->ranks; rank++)
		for (u32 i = 0; i < world->nodes[rank].connections; i++)
			if (!connect_pair(world, rank, i))
				return false;
	for (u32 rank = 0; rank < world->ranks; rank++)
		if (!core_start(world->nodes[rank].core, world->now_ns))
			return false;
	for (u32 rank = 0; rank < world->ranks; rank++)
		drive(world, &world->nodes[rank]);
	return true;
}

/* The oldest frame, or one of its successors; in memory that a sanitizer guards. */
static void deliver(struct world *world)
{
	u32 at = draw(world, 1000000) < world->delayed ? draw(world, world->count) : 0;
	struct frame frame = world->air[at];
	struct node *node = &world->nodes[frame.rank];
	struct span span = {malloc(frame.length), frame.length};

	world->count--;
	memmove(&world->air[at], &world->air[at + 1], (world->count - at) * sizeof(frame));
	memcpy(span.data, frame.bytes, frame.length);
	if (!node->has_left)
		endpoint_receive(node->endpoint, &span, 1, world->now_ns);
	free(span.data);
	drive(world, node);
}

static u64 next_deadline(const struct world *world)
{
	u64 next_ns = RC_NEVER;

	for (u32 rank = 0; rank < world->ranks; rank++)
		for (u32 i = 0; i < world->nodes[rank].connections && !world->nodes[rank].has_left; i++) {
			u64 due_ns = rc_next_deadline(world->nodes[rank].pairs[i]);

			next_ns = due_ns < next_ns ? due_ns : next_ns;
		}
	return next_ns;
}

bool world_step(struct world *world)
{
	u64 next_ns;

	if (world->count) {
		deliver(world);
		return true;
	}
	next_ns = next_deadline(world);
	if (next_ns == RC_NEVER)
		return false;
	if (next_ns > world->now_ns)
		world->now_ns = next_ns;
	for (u32 rank = 0; rank < world->ranks; rank++)
		drive(world, &world->nodes[rank]);
	return true;
}

void world_push(struct world *world, u32 rank)
{
	drive(world, &world->nodes[rank]);
}

void world_pass(struct world *world, u64 ns)
{
	world->now_ns += ns;
	for (u32 rank = 0; rank < world->ranks; rank++) {
		if (world->nodes[rank].has_left)
			continue;
		core_tick(world->nodes[rank].core, world->now_ns);
		drive(world, &world->nodes[rank]);
	}
}

u64 world_now(const struct world *world)
{
	return world->now_ns;
}

u32 world_regions(const struct world *world, u32 rank)
{
	return world->nodes[rank].regions;
}

void world_faults(struct world *world, u32 lost, u32 repeated, u32 delayed)
{
	world->lost = lost;
	world->repeated = repeated;
	world->delayed = delayed;
}

bool world_write(struct world *world, u32 rank, u32 connection, const u8 *data, u32 bytes, u32 key,
		 u64 offset)
{
	return xdp->post_write(world->nodes[rank].wire, connection, data, bytes, key, offset, 0);
}

bool world_send(struct world *world, u32 rank, u32 connection, const u8 *data, u32 bytes)
{
	return rc_post_send(world->nodes[rank].pairs[connection], 0, data, bytes);
}

u32 world_old_key(struct world *world, u32 rank, u8 *memory, u32 bytes)
{
	u32 key = xdp->register_memory(world->nodes[rank].wire, memory, bytes);

	xdp->deregister_memory(world->nodes[rank].wire, key);
	return key;
}

u32 world_staging_key(struct world *world, u32 rank, u32 connection)
{
	return world->nodes[rank].core->connections[connection].our_key;
}

void world_clear(struct world *world)
{
	world->count = 0;
}

bool world_is_drained(struct world *world, u32 rank)
{
	return xdp->is_drained(world->nodes[rank].wire);
}

void world_abandon(struct world *world, u32 rank)
{
	xdp->abandon(world->nodes[rank].wire);
}

u64 world_rnr_naks(const struct world *world)
{
	u64 count = 0;

	for (u32 rank = 0; rank < world->ranks; rank++)
		for (u32 i = 0; i < world->nodes[rank].connections; i++)
			count += rc_counters(world->nodes[rank].pairs[i])->tx_nak_rnr;
	return count;
}
