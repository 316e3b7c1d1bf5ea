// SPDX-License-Identifier: Apache-2.0
#include "xdp_sockets.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/wire/xdp.h"
#include "ports/clock.h"
#include "ports/stack.h"

#define FIRST_IP 0x0a4d0001 /* as tools/benchmarks/two_nodes.py has them */

static struct {
	struct xsk_memory *memory;
	struct xsk *xsk;
	struct endpoint *endpoint;
	struct stack *stack;
	struct rc *pair;
	int socket;
} ends[2];

static void open_end(u32 number, struct xsk_geometry geometry, int memory, int socket)
{
	struct stack_port_config config = {.mac = {2, 0x48, 0, 0xdd, 0, 0x0a + number}, .priority = 3};

	if (xsk_memory_adopt(&ends[number].memory, memory, geometry) ||
	    xsk_adopt(&ends[number].xsk, ends[number].memory, socket))
		abort();
	ends[number].endpoint = endpoint_create(4, 256, number);
	ends[number].stack = stack_open(ends[number].endpoint);
	ends[number].pair = rc_create(ends[number].endpoint, XDP_WIRE_DEPTH, XDP_WIRE_DEPTH);
	stack_add_port(ends[number].stack, ends[number].xsk, &config, NULL);
	stack_add_pair(ends[number].stack, 0, ends[number].pair, 0, 3);
}

static void connect_end(u32 number)
{
	struct rc_config config;

	rc_defaults(&config, 0);
	for (u32 i = 0; i < 6; i++) {
		config.local_mac[i] = (u8[]){2, 0x48, 0, 0xdd, 0, 0x0a + number}[i];
		config.peer_mac[i] = (u8[]){2, 0x48, 0, 0xdd, 0, 0x0b - number}[i];
	}
	config.local_ip = FIRST_IP + number;
	config.peer_ip = FIRST_IP + 1 - number;
	config.peer_qpn = rc_qpn(ends[1 - number].pair);
	config.path_mtu = 4096;
	config.dscp = 26;
	config.credits = true;
	config.ack_delay_ns = 200000;
	config.send_ack_delay_ns = 4000000;
	if (!rc_connect(ends[number].pair, &config, clock_ns()))
		abort();
}

const struct wire_operations *xdp_open_wires(void **wires)
{
	struct xsk_geometry geometry;
	int memory[2], socket[2], both[2];

	if (sscanf(getenv("XDP_SOCKETS"), "%u %u %u %d %d %d %d", &geometry.receive_chunks,
		   &geometry.send_frames, &geometry.frame_bytes, &memory[0], &socket[0], &memory[1],
		   &socket[1]) != 7)
		abort();
	socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both);
	for (u32 i = 0; i < 2; i++) {
		open_end(i, geometry, memory[i], socket[i]);
		ends[i].socket = both[i];
		wires[i] = xdp_wire_open(ends[i].stack, &ends[i].pair, &ends[i].socket, 1, 2048);
	}
	for (u32 i = 0; i < 2; i++)
		connect_end(i);
	return xdp_wire_operations();
}

void xdp_close_wires(void **wires)
{
	for (u32 i = 0; i < 2; i++) {
		xdp_wire_close(wires[i]);
		stack_close(ends[i].stack);
		endpoint_destroy(ends[i].endpoint);
		xsk_close(ends[i].xsk);
		xsk_memory_close(ends[i].memory);
		close(ends[i].socket);
	}
}
