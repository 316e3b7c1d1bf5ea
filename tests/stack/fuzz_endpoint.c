// SPDX-License-Identifier: Apache-2.0
/*
 * A fuzzer's way into an endpoint: its input is read as a history of frames, posts, requests for frames and
 * time. Frames come raw, or with headers, PSN and ICRC that fit, so that what lies behind those is reached.
 *
 * All memory that the endpoint may touch is allocated to the byte, so that AddressSanitizer sees each access
 * out of bounds; on top of it, memory whose key is wrong or was taken back must stay as it is.
 */
#include <stdio.h>
#include <stdlib.h>

#include "roce/endpoint.h"
#include "roce/icrc.h"
#include "roce/packet.h"

#define REGION_BYTES   5000
#define RECEIVE_BYTES  700
#define FRAME_MAX      4400
#define DEPTH          8
#define LOCAL_IP       0x0a000001
#define PEER_IP        0x0a000002
#define REGION_ADDRESS 0x100000
#define FIRST_PSN      0xfffffa

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes);

/* What was reached in all runs together: a fuzzer that reaches nothing finds nothing. */
static struct {
	u64 taken, received, written, refused, sent, naks, retries;
} reached;

struct world {
	struct view input;
	struct endpoint *endpoint;
	struct rc *rc;
	u8 *region, *closed, *source;
	u8 *buffers[64];
	u32 used;
	u32 key, closed_key, mtu;
	u64 now_ns;
};

static u32 choice(struct world *world, u32 bytes)
{
	u32 value = 0;

	for (u32 i = 0; i < bytes; i++) {
		const u8 *at = view_take(&world->input, 1);

		value = value << 8 | (at ? *at : 0);
	}
	return value;
}

static void open_world(struct world *world)
{
	static const u16 mtus[] = {256, 512, 1024, 2048, 4096};
	struct rc_config config;
	u32 options = choice(world, 1);

	rc_defaults(&config, options & 1 ? 1000000000 : 0);
	config.local_ip = LOCAL_IP;
	config.peer_ip = PEER_IP;
	config.peer_qpn = 17;
	config.send_psn = config.receive_psn = FIRST_PSN;
	config.path_mtu = mtus[(options >> 1 & 7) % 5];
	config.congestion_control = options & 1;
	config.credits = options & 16;
	config.window = options & 32 ? 128 : 3;
	config.retry_count = 2;
	config.rnr_retry = 1;
	world->endpoint = endpoint_create(4, 4, options);
	world->rc = rc_create(world->endpoint, DEPTH, DEPTH);
	world->region = calloc(1, REGION_BYTES);
	world->closed = calloc(1, REGION_BYTES);
	world->source = calloc(1, REGION_BYTES);
	world->mtu = config.path_mtu;
	world->key = endpoint_register(world->endpoint, world->region, REGION_BYTES, REGION_ADDRESS);
	world->closed_key = endpoint_register(world->endpoint, world->closed, REGION_BYTES, REGION_ADDRESS);
	endpoint_deregister(world->endpoint, world->closed_key);
	if (!rc_connect(world->rc, &config, world->now_ns))
		abort();
}

static void close_world(struct world *world)
{
	for (u32 i = 0; i < REGION_BYTES; i++)
		if (world->closed[i])
			abort();
	const struct rc_counters *counters = rc_counters(world->rc);

	reached.refused += counters->tx_nak_access;
	reached.naks += counters->tx_nak_sequence;
	reached.retries += counters->repeated;
	endpoint_destroy(world->endpoint);
	for (u32 i = 0; i < world->used; i++)
		free(world->buffers[i]);
	free(world->region);
	free(world->closed);
	free(world->source);
}

/* Hands a frame over in buffers that are as long as they say, and gone afterwards. */
static void deliver(struct world *world, const u8 *frame, u32 bytes, u32 cut)
{
	struct span spans[PACKET_SPANS] = {0};
	u32 count = 0, at = 0;

	do {
		u32 left = bytes - at, here = cut && count < PACKET_SPANS - 1 && cut < left ? cut : left;

		spans[count].data = malloc(here ? here : 1);
		spans[count].bytes = here;
		memcpy(spans[count++].data, frame + at, here);
		at += here;
	} while (at < bytes);
	reached.taken += endpoint_receive(world->endpoint, spans, count, world->now_ns) != NULL;
	for (u32 i = 0; i < count; i++)
		free(spans[i].data);
}

static void raw_frame(struct world *world)
{
	u32 bytes = choice(world, 2) % FRAME_MAX, cut = choice(world, 1);

	bytes = bytes < world->input.bytes ? bytes : world->input.bytes;
	const u8 *frame = view_take(&world->input, bytes);

	deliver(world, frame, bytes, cut);
}

/* Mostly what the pair waits for, which no fuzzer would find by itself. */
static u32 likely_psn(struct world *world)
{
	u32 expected = FIRST_PSN + (u32)rc_counters(world->rc)->rx_packets, other = choice(world, 1);

	return (other < 192 ? expected : FIRST_PSN + other - 200) & 0xffffff;
}

static u32 likely_payload(struct world *world)
{
	u32 size = choice(world, 2);

	return size < 0x8000 ? world->mtu : size < 0xc000 ? size & 0xff : size % 4200;
}

static void put_transport(struct world *world, struct room *room, u32 opcode, u32 flags, u32 payload)
{
	const u32 sizes[] = {0, 1, payload, payload, 2 * world->mtu, 3 * world->mtu - 1, 4096, REGION_BYTES};
	struct bth bth = {.qpn = flags & 2 && flags & 1 ? choice(world, 3) : rc_qpn(world->rc),
			  .pkey = DEFAULT_PKEY};
	struct reth reth = {.address = REGION_ADDRESS + (u64)((short)choice(world, 2) / 16)};
	struct aeth aeth = {.syndrome = (u8)choice(world, 1), .msn = choice(world, 1)};

	bth.opcode = (u8)opcode;
	bth.psn =
		opcode == OP_ACKNOWLEDGE ? (FIRST_PSN + choice(world, 1) - 2) & 0xffffff : likely_psn(world);
	bth.pad = flags & 2 ? flags >> 2 & 3 : -payload & 3;
	bth.ack_request = flags & 16;
	reth.key = flags & 32 ? world->closed_key : (flags & 66) == 66 ? choice(world, 4) : world->key;
	reth.length = (flags & 0x82) == 0x82 ? choice(world, 4) : sizes[choice(world, 1) & 7];
	bth_emit(room, &bth);
	if (opcode == OP_WRITE_FIRST || opcode == OP_WRITE_ONLY || opcode == OP_WRITE_ONLY_IMMEDIATE)
		reth_emit(room, &reth);
	if (opcode == OP_ACKNOWLEDGE)
		aeth_emit(room, &aeth);
	if (opcode == OP_SEND_LAST_IMMEDIATE || opcode == OP_SEND_ONLY_IMMEDIATE ||
	    opcode == OP_WRITE_LAST_IMMEDIATE || opcode == OP_WRITE_ONLY_IMMEDIATE)
		immediate_emit(room, 5);
}

/* A frame that comes as far as the pair, with lengths and sums that are right. */
static void good_frame(struct world *world)
{
	static u8 frame[FRAME_MAX];
	u32 opcode = choice(world, 1), flags = choice(world, 1), cut = choice(world, 1);
	u32 payload = likely_payload(world);
	struct room room = {.at = frame, .bytes = FRAME_MAX};
	struct ethernet ethernet = {.type = ETHERTYPE_IPV4};
	struct ipv4 ip = {
		.from = PEER_IP, .to = LOCAL_IP, .ttl = 9, .protocol = PROTOCOL_UDP, .ecn = cut & 3};
	u8 *ip_at = frame + ETHERNET_BYTES, *udp_at = ip_at + IPV4_BYTES;

	if (opcode < 0x60)
		opcode %= OP_SEND_ONLY_INVALIDATE + 1;
	ethernet_emit(&room, &ethernet);
	struct room headers = room;

	room_take(&room, IPV4_BYTES + UDP_BYTES);
	put_transport(world, &room, opcode, flags, payload);
	u32 transport = (u32)(room.at - udp_at) - UDP_BYTES;

	payload += flags & 2 ? 0 : -payload & 3;
	memset(room_take(&room, payload), (int)choice(world, 1), payload);
	ip.total = (u16)(room.at + ICRC_BYTES - ip_at);
	struct udp udp = {.to = ROCE_PORT, .length = (u16)(ip.total - IPV4_BYTES)};

	ipv4_emit(&headers, &ip);
	udp_emit(&headers, &udp);
	u32 icrc = icrc_headers(ip_at, IPV4_BYTES + UDP_BYTES + transport);

	icrc_emit(room.at, icrc_add(icrc, room.at - payload, payload));
	deliver(world, frame, (u32)(room.at + ICRC_BYTES - frame), cut > 127 ? cut * 8 : 0);
}

static void post(struct world *world, u32 what)
{
	u32 bytes = choice(world, 2) % (REGION_BYTES + 1);

	if (what == 0)
		rc_post_send(world->rc, 1, world->source, bytes);
	else if (what == 1)
		rc_post_write_immediate(world->rc, 2, world->source, bytes, 0, 0, 3);
	else if (world->used < 64) {
		u8 *buffer = malloc(RECEIVE_BYTES);

		world->buffers[world->used++] = buffer;
		rc_post_receive(world->rc, 4, buffer, what == 2 ? RECEIVE_BYTES : 0);
	}
}

static void transmit(struct world *world)
{
	u32 room = choice(world, 2) % (FRAME_MAX + 1), cut = choice(world, 1) * 16;
	u32 first = cut < room ? cut : room;
	struct span out[2] = {{malloc(first + 1), first}, {malloc(room - first + 1), room - first}};

	reached.sent += rc_transmit(world->rc, out, 2, world->now_ns) > 0;
	free(out[0].data);
	free(out[1].data);
}

static void poll(struct world *world)
{
	struct rc_completion completion;

	while (rc_poll_completion(world->rc, &completion)) {
		reached.received += completion.kind == RC_RECEIVED && !completion.status;
		reached.written += completion.kind == RC_WRITTEN;
	}
}

static void pass_time(struct world *world)
{
	world->now_ns += (u64)choice(world, 2) << 12;
	u64 deadline = rc_next_deadline(world->rc);

	if (deadline != RC_NEVER && deadline > world->now_ns && choice(world, 1) & 1)
		world->now_ns = deadline;
}

static void report(void)
{
	fprintf(stderr,
		"reached: taken %llu received %llu written %llu refused %llu sent %llu naks %llu retries "
		"%llu\n",
		reached.taken, reached.received, reached.written, reached.refused, reached.sent, reached.naks,
		reached.retries);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	static bool reports;
	struct world world = {.input = {data, (u32)bytes}, .now_ns = 1000000000};

	if (!reports)
		reports = !atexit(report);
	open_world(&world);
	while (world.input.bytes) {
		u32 action = choice(&world, 1) & 15;

		if (action < 4)
			post(&world, action);
		else if (action == 4)
			raw_frame(&world);
		else if (action < 11)
			good_frame(&world);
		else if (action < 13)
			transmit(&world);
		else if (action == 13)
			poll(&world);
		else if (action == 14)
			pass_time(&world);
		else if (choice(&world, 1) == 0xff)
			endpoint_deregister(world.endpoint, world.key);
	}
	poll(&world);
	close_world(&world);
	return 0;
}
