/* SPDX-License-Identifier: Apache-2.0 */
/* Ports and flows of the traffic generator; see programs/traffic.c. */
#pragma once

#include "cable/pacer.h"
#include "cable/pfc.h"
#include "programs/background.h"
#include "wire/ip.h"
#include "xsk/xsk.h"

enum {
	MOST_PORTS = 128,
	MOST_FLOWS = 1024,
	RECEIVE_CHUNKS = 2560,
	SEND_FRAMES = 256,
	ROCE_PORT = 4791,
	HEADERS_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES,
	MARKS_BYTES = 12, /* flow and sequence number */
};

/* Frames from one port to one address. */
struct flow {
	u32 port, bytes;
	u8 priority;
	u8 headers[HEADERS_BYTES];
	u64 sent;
	u64 received, received_bytes, next; /* at the receiver */
	u64 late;                           /* received out of order */
	u64 first_ns, last_ns;
};

struct port {
	struct xsk_memory *memory;
	struct xsk *xsk;
	struct pacer pacer;
	struct pfc_port pfc;
	struct pfc_counters pauses[PRIORITIES];
	u32 flows[MOST_FLOWS];
	u32 count, turn;
	u8 mac[MAC_BYTES];
	bool is_behind;
};

struct traffic {
	struct port ports[MOST_PORTS];
	struct flow flows[MOST_FLOWS];
	u32 port_count, flow_count;
	int epoll; /* of all sockets */
};

/* Opens the ports and adds the flows of a plan. Exits on failure. */
void read_plan(struct traffic *traffic, FILE *file);
