/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the switch process: the core of each switch, and its I/O; see switch/soft_switch.c. */
#pragma once

#include "switch/config.h"
#include "xsk/xsk.h"

#define SEND_FRAMES   256  /* per switch: for its own PFC frames and for flooded copies */
#define SPARE_PACKETS 1024 /* per switch: queue entries of flooded copies */

/* A frame in a switch's memory; flooded frames are in several queues. */
struct frame {
	struct xsk_frame place;
	u32 queues;
	u32 next_free;
};

/* An entry of a queue. */
struct entry {
	struct packet packet; /* first */
	u32 frame;
	u32 next_free;
};

struct pool {
	u32 first_free; /* index + 1 */
};

struct port {
	struct xsk *xsk;
	struct entry *waiting; /* dequeued, but the ring was full */
	bool is_behind;        /* the interface has not sent everything */
	u64 down_ns;           /* if not 0: the cable is down, retry at this time */
};

struct machine {
	struct soft_switch *core;
	struct xsk_memory *memory;
	struct frame *frames;
	struct entry *entries;
	struct pool free_frames, free_entries;
	u64 settle_ns, look_ns;
	struct port ports[SWITCH_PORTS];
};

struct fabric {
	struct machine *machines;
	u32 count;
	u64 grain_ns; /* time between two turns while frames arrive */
	int epoll;
};

/*
 * Opens all switches of a configuration, with their sockets and counters. Leaves the thread in the namespace
 * of the last switch. Exits on failure.
 */
struct switch_file *open_fabric(struct fabric *fabric, const struct fabric_config *config);

/* Handles the frames that a port has received; returns their number. */
u32 receive_frames(struct machine *machine, u32 ingress, u64 now);

/* Sends the frames that a port may send now; returns their number. */
u32 send_frames(struct machine *machine, u32 egress, u64 now);

/* When the port has something to do next. */
u64 port_next_ns(const struct machine *machine, u32 port, u64 now);
