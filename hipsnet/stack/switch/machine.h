/* SPDX-License-Identifier: Apache-2.0 */
/* The process that plays switches: what it keeps of each, beside the core; see switch/soft_switch.c. */
#pragma once

#include "switch/config.h"
#include "xsk/xsk.h"

#define SEND_FRAMES   256  /* of a switch: for its own PFC frames, and copies of what it floods */
#define SPARE_PACKETS 1024 /* of a switch: for what it floods */

/* A frame in a switch's memory: in as many queues as it has ports to leave by. */
struct frame {
	struct xsk_frame place;
	u32 queues;
	u32 next_free;
};

/* What stands in a queue. */
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
	struct entry *waiting; /* has left the buffer, and the ring was full */
	bool is_behind;        /* the interface has not taken all */
	u64 down_ns;           /* the cable is down: tried again then */
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
	u64 grain_ns; /* turns are so far apart */
	int epoll;
};

/*
 * Opens all switches of a configuration, with their sockets and counters; the thread is then in the last of
 * their namespaces. What fails ends the program.
 */
struct switch_file *open_fabric(struct fabric *fabric, const struct fabric_config *config);

/* Handles what has come in by a port; returns how many frames. */
u32 receive_frames(struct machine *machine, u32 ingress, u64 now);

/* Sends what may leave by a port; returns how many frames. */
u32 send_frames(struct machine *machine, u32 egress, u64 now);

/* When a port has to be looked after again. */
u64 port_next_ns(const struct machine *machine, u32 port, u64 now);
