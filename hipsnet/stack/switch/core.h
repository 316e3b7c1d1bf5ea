/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switch without I/O: ports, the shared buffer between them, and the rules. The caller brings frames and
 * time, and carries out what comes back:
 *
 *	switch_receive()	a frame came in: where it has to go
 *	switch_admit()		once for each of these ports: into the buffer, or lost
 *	switch_take()		the next frame that leaves by a port now
 *	switch_discard()	the next frame that the watchdog drops
 *	switch_pause()		the PFC frame that a port has to send now
 *	switch_next_ns()	when to come again, if nothing comes in before
 */
#pragma once

#include <stdbool.h>

#include "cable/pfc.h"
#include "cable/watchdog.h"
#include "switch/bridge.h"
#include "switch/buffer.h"
#include "switch/counters.h"
#include "switch/egress.h"
#include "switch/marking.h"
#include "switch/router.h"
#include "wire/types.h"

#define DSCP_COUNT 64

/* What was when the watchdog detected it. */
struct storm {
	u64 began_ns, dropped_before, victims;
};

struct switch_port {
	struct egress egress;
	struct pfc_port pfc;
	struct port_counters *count;
	struct watchdog_queue watched[PRIORITIES];
	struct storm storm[PRIORITIES]; /* the last */
	u8 storming;                    /* a bit for each priority */
	u32 ahead;                      /* chunks of its own, for what comes while nobody looks */
	u32 late;                       /* of them, those that hold frames beyond the headroom */
	u8 mac[MAC_BYTES];
};

struct soft_switch {
	struct switch_counters *count;
	struct buffer buffer;
	struct watchdog watchdog;     /* of all lossless priorities; see switch/storm.h */
	struct switch_events *events; /* what it tells; NULL: nobody listens */
	u32 number;                   /* of the switch, there */
	u64 watch_ns;
	struct marking marking;
	u8 marks; /* a bit for each priority whose packets are marked */
	u8 priority_of[DSCP_COUNT];
	bool routes;
	struct bridge bridge; /* of one that does not */
	struct router router;
	u32 ports;
	u64 memory_free;   /* chunks that hold no frame; the caller keeps it */
	u64 memory_owed;   /* of them, those that reserves and headrooms count on */
	u32 chunk_bytes;   /* what a chunk holds of a frame */
	u32 longest_frame; /* without a VLAN tag */
	u64 stopped;       /* a bit for each port at whose other end something is stopped */
	struct switch_port port[SWITCH_PORTS];
};

/* The longest frame that a switch hands on. As in the kernel's bridge, a VLAN tag does not count. */
static inline u32 switch_frame_bytes(u32 longest_frame)
{
	return longest_frame + VLAN_BYTES;
}

/* In a set of ports. */
static inline u64 port_bit(u32 port)
{
	return 1ULL << port;
}

/* The counters are the switch's and, behind them in memory, its ports'. All else of the switch is set. */
void switch_init(struct soft_switch *self, struct switch_counters *counters);

/* `weights` by priority; 0 everywhere is strict. */
void switch_init_port(struct soft_switch *self, u32 port, const u8 *mac, u64 rate_bps, u64 burst_ns,
		      const u32 *weights, u32 longest_frame);

/*
 * The ports by which a frame has to leave, as bits, and its priority; 0 if it ends here (it is counted). A
 * PFC frame is obeyed. `head` is the frame's first buffer, with all its headers; a router changes them.
 */
u64 switch_receive(struct soft_switch *self, u32 ingress, struct span head, u32 bytes, u8 *priority, u64 now);

/*
 * Takes a frame in, perhaps marked, for one port; false if it is lost (it is counted).
 *
 * A lossless frame that finds its headroom full came while nobody looked at its port: its sender is not to
 * blame. It is in memory already, in one of the chunks `ahead` of the port, and keeps that until it has left;
 * so long the port's ring gets so many less, and nobody else's memory is touched.
 */
bool switch_admit(struct soft_switch *self, u32 egress, struct packet *packet, u8 *head, u32 chunks, u64 now);

/* How many chunks a port's ring may have now. */
static inline u32 switch_ring_chunks(const struct soft_switch *self, u32 port)
{
	return self->port[port].ahead - self->port[port].late;
}

/* The frame that leaves by a port now; NULL if none may. Its bytes are free, its memory is when it is sent.
 */
struct packet *switch_take(struct soft_switch *self, u32 egress, u64 now);

/* A frame that cannot leave because the cable is down, lost and counted; NULL if no other waits. */
struct packet *switch_drop(struct soft_switch *self, u32 egress, u64 now);

/* A frame that would wait in a storm, lost and counted; NULL if no other does. */
struct packet *switch_discard(struct soft_switch *self, u32 egress, u64 now);

/* The PFC frame that a port has to send now; false if there is none. */
bool switch_pause(struct soft_switch *self, u32 port, struct pfc *frame, u64 now);

/* Looks after what was stopped elsewhere, and brings the counters up to now. */
void switch_settle(struct soft_switch *self, u64 now);

/* When a port may send next; PFC_NEVER if nothing waits that may. */
u64 switch_next_ns(const struct soft_switch *self, u32 port, u64 now);
