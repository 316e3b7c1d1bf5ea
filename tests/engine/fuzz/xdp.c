// SPDX-License-Identifier: Apache-2.0
/* The core on the XDP wire: the peers are queue pairs of another endpoint, on a link that loses and repeats.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/wire/xdp_connection.h"
#include "peers.h"
#include "ports/stack.h"
#include "roce/icrc.h"
#include "roce/packet.h"

#define MESSAGE_MAX (MESSAGE_HEADER_MAX + FUZZ_EAGER_BYTES)
#define POST_MAX    4096
#define FRAME_MAX   512
#define MTU         256
#define FIRST_PSN   0xfffffa
#define BTH_AT      (ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES)
#define RETH_AT     (BTH_AT + BTH_BYTES)

/* The peer's end: `posted` keeps what its pair sends. */
struct end {
	struct rc *near, *far;
	int fd;
	u8 *posted;
	u32 posts;
};

static struct end ends[FUZZ_CONNECTIONS];
static struct endpoint *near_endpoint, *far_endpoint;
static struct stack *stack;
static u8 far_memory[FUZZ_SLOT_BYTES], far_message[POST_MAX];
static u32 far_key;

static void connect_pair(struct rc *rc, const struct rc *peer, u32 ip, u32 peer_ip, u64 now_ns)
{
	struct rc_config config;

	rc_defaults(&config, 0);
	config.local_ip = ip;
	config.peer_ip = peer_ip;
	config.peer_qpn = rc_qpn(peer);
	config.send_psn = config.receive_psn = FIRST_PSN;
	config.path_mtu = MTU;
	config.credits = true;
	config.retry_count = 2;
	config.timeout_ns = 1000000;
	if (!rc_connect(rc, &config, now_ns))
		abort();
}

/* The far pairs take what arrives, and keep receives posted. */
static void receive_there(struct rc *far)
{
	struct rc_completion done;

	while (rc_poll_completion(far, &done))
		;
	while (rc_post_receive(far, 0, far_message, sizeof(far_message)))
		;
}

static const struct wire_operations *open_wire(struct world *world)
{
	struct rc *pairs[FUZZ_CONNECTIONS];
	int sockets[FUZZ_CONNECTIONS];

	near_endpoint = endpoint_create(4, 64, world->seed);
	far_endpoint = endpoint_create(4, 4, world->seed + 1);
	far_key = endpoint_register(far_endpoint, far_memory, sizeof(far_memory), 0);
	stack = stack_open(near_endpoint);
	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++) {
		int both[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both))
			abort();
		sockets[i] = both[0];
		pairs[i] = rc_create(near_endpoint, XDP_WIRE_DEPTH, XDP_WIRE_DEPTH);
		ends[i] = (struct end){pairs[i], rc_create(far_endpoint, XDP_WIRE_DEPTH, XDP_WIRE_DEPTH),
				       both[1], malloc(XDP_WIRE_DEPTH * POST_MAX), 0};
	}
	world->wire = xdp_wire_open(stack, pairs, sockets, FUZZ_CONNECTIONS, MESSAGE_MAX);
	if (!world->wire)
		abort();
	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++) {
		receive_there(ends[i].far);
		connect_pair(ends[i].near, ends[i].far, 1, 2 + i, world->now_ns);
		connect_pair(ends[i].far, ends[i].near, 2 + i, 1, world->now_ns);
	}
	return xdp_wire_operations();
}

static void close_wire(struct world *world)
{
	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++) {
		const struct xdp_wire *wire = world->wire;
		int fd = wire->connection[i].socket;

		if (ends[i].fd >= 0)
			close(ends[i].fd);
		ends[i].fd = fd;
	}
	xdp_wire_close(world->wire);
	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++) {
		close(ends[i].fd);
		free(ends[i].posted);
	}
	stack_close(stack);
	endpoint_destroy(near_endpoint);
	endpoint_destroy(far_endpoint);
}

static void deliver(struct endpoint *to, const u8 *bytes, u32 length, u64 now_ns)
{
	struct span span = {malloc(length ? length : 1), length};

	memcpy(span.data, bytes, length);
	endpoint_receive(to, &span, 1, now_ns);
	free(span.data);
}

/* The core writes to keys that the input has chosen: all of them are good there. */
static void allow_write(u8 *frame, u32 length)
{
	u8 opcode = frame[BTH_AT + BTH_OPCODE];
	u32 headers = RETH_AT + RETH_BYTES + (opcode == OP_WRITE_ONLY_IMMEDIATE ? IMMEDIATE_BYTES : 0), icrc;
	struct room room = {.at = frame + RETH_AT, .bytes = RETH_BYTES};
	struct reth reth = {.key = far_key};

	if (opcode != OP_WRITE_FIRST && opcode != OP_WRITE_ONLY_IMMEDIATE)
		return;
	reth.length = get32(frame + RETH_AT + 12);
	reth_emit(&room, &reth);
	icrc = icrc_headers(frame + ETHERNET_BYTES, headers - ETHERNET_BYTES);
	icrc = icrc_add(icrc, frame + headers, length - ICRC_BYTES - headers);
	icrc_emit(frame + length - ICRC_BYTES, icrc);
}

/* Sends the frames that are due in one direction; the input says which are lost and which repeated. */
static void carry(struct world *world, struct rc *from, struct endpoint *to, u32 faults)
{
	u8 bytes[FRAME_MAX];
	struct span out = {bytes, sizeof(bytes)};
	u32 length;

	while (rc_next_deadline(from) <= world->now_ns) {
		length = rc_transmit(from, &out, 1, world->now_ns);
		if (!length)
			return;
		if (to == far_endpoint)
			allow_write(bytes, length);
		if (!(faults & 1))
			deliver(to, bytes, length, world->now_ns);
		if (faults & 2)
			deliver(to, bytes, length, world->now_ns);
		faults >>= 2;
	}
}

/* Frames of all connections pass; the input's faults concern one of them. */
static void transfer(struct world *world, u32 connection, u32 faults)
{
	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++)
		carry(world, ends[i].far, near_endpoint, i == connection ? faults & 0xff : 0);
	xdp_wire_operations()->progress(world->wire, world->core, world->now_ns);
	core_push(world->core);
	xdp_wire_operations()->flush(world->wire, world->core, world->now_ns);
	for (u32 i = 0; i < FUZZ_CONNECTIONS; i++) {
		carry(world, ends[i].near, far_endpoint, i == connection ? faults >> 8 : 0);
		receive_there(ends[i].far);
		carry(world, ends[i].far, near_endpoint, 0); /* its acknowledgements */
	}
	xdp_wire_operations()->progress(world->wire, world->core, world->now_ns);
}

/* Mostly nothing is lost. */
static u32 choose_faults(struct world *world)
{
	return choose(world, 1) < 0xe0 ? 0 : choose(world, 2);
}

static u8 *keep(struct end *end, const u8 *bytes, u32 length)
{
	u8 *copy = end->posted + end->posts++ % XDP_WIRE_DEPTH * POST_MAX;

	if (bytes)
		memcpy(copy, bytes, length);
	else
		memset(copy, 2, length);
	return copy;
}

static void message(struct world *world, u32 connection, const u8 *bytes, u32 length)
{
	struct end *end = &ends[connection];

	if (length <= POST_MAX)
		rc_post_send(end->far, 0, keep(end, bytes, length), length);
	transfer(world, connection, choose_faults(world));
}

static void write_region(struct world *world, u32 connection, wire_key key, u64 offset, u32 bytes,
			 u32 immediate)
{
	struct end *end = &ends[connection];

	if (bytes <= POST_MAX)
		rc_post_write_immediate(end->far, 0, keep(end, NULL, bytes), bytes, offset, key, immediate);
	transfer(world, connection, choose_faults(world));
}

/* The start of a farewell, or a frame. */
static void raw(struct world *world, u32 connection, const u8 *bytes, u32 length)
{
	if (length % 2)
		deliver(near_endpoint, bytes, length, world->now_ns);
	else if (ends[connection].fd >= 0)
		send(ends[connection].fd, bytes, length < 5 ? length : 5, MSG_NOSIGNAL);
	transfer(world, connection, 0);
}

static void hang_up(struct world *world, u32 connection)
{
	u8 bye[XDP_BYE_BYTES] = {'b', 'y', 'e', '.', choose(world, 1)};

	if (ends[connection].fd >= 0) {
		if (choose(world, 1) & 1)
			send(ends[connection].fd, bye, sizeof(bye), MSG_NOSIGNAL);
		close(ends[connection].fd);
	}
	ends[connection].fd = -1;
	transfer(world, connection, 0xffff);
}

/* Frames pass on a connection, or its next timer expires. */
static void progress(struct world *world)
{
	u32 connection = choose(world, 1) % FUZZ_CONNECTIONS;
	u64 due_ns = rc_next_deadline(ends[connection].near), far_ns = rc_next_deadline(ends[connection].far);

	due_ns = due_ns < far_ns ? due_ns : far_ns;
	if (due_ns != RC_NEVER && due_ns > world->now_ns && due_ns < world->now_ns + 100000000)
		world->now_ns = due_ns;
	transfer(world, connection, choose_faults(world));
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
