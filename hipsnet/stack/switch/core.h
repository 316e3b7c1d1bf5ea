/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switch, sans-I/O: ports, the shared buffer between them, and the forwarding. The caller provides frames
 * and time, and acts on the results:
 *
 *	switch_receive()	a frame has arrived: returns its egress ports
 *	switch_admit()		for each egress port: enqueues the frame, or drops it
 *	switch_take()		the next frame to send through a port
 *	switch_discard()	the next frame that the watchdog drops
 *	switch_pause()		the PFC frame that a port has to send now
 *	switch_next_ns()	when to call again, unless a frame arrives before
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

/* The state when the watchdog detected a storm. */
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
	u32 ahead; /* chunks of its own, for frames that arrive while the process is descheduled */
	u32 late;  /* of them, those with frames beyond the headroom */
	u8 mac[MAC_BYTES];
};

struct soft_switch {
	struct switch_counters *count;
	struct buffer buffer;
	struct watchdog watchdog;     /* of all lossless priorities; see switch/storm.h */
	struct switch_events *events; /* the watchdog's log; may be NULL */
	u32 number;                   /* of the switch in the log */
	u64 watch_ns;
	struct marking marking;
	u8 marks; /* a bit for each priority whose packets are marked */
	u8 priority_of[DSCP_COUNT];
	bool routes;          /* layer 3, else layer 2 */
	struct bridge bridge; /* layer 2 */
	struct router router;
	u32 ports;
	u64 memory_free;   /* chunks that hold no frame; the caller keeps it */
	u64 memory_owed;   /* of them, those that reserves and headrooms count on */
	u32 chunk_bytes;   /* bytes of a frame in a chunk */
	u32 longest_frame; /* without a VLAN tag */
	u64 stopped;       /* a bit for each port at whose other end something is stopped */
	struct switch_port port[SWITCH_PORTS];
};

/* The longest frame that a switch forwards. As in the kernel's bridge, a VLAN tag does not count. */
static inline u32 switch_frame_bytes(u32 longest_frame)
{
	return longest_frame + VLAN_BYTES;
}

/* A port's bit in a set of ports. */
static inline u64 port_bit(u32 port)
{
	return 1ULL << port;
}

/* To be called after all other fields are set. The ports' counters follow the switch's in memory. */
void switch_init(struct soft_switch *self, struct switch_counters *counters);

/* `weights` by priority; all 0: strict. */
void switch_init_port(struct soft_switch *self, u32 port, const u8 *mac, u64 rate_bps, u64 burst_ns,
		      const u32 *weights, u32 longest_frame);

/*
 * Handles a received frame: returns its egress ports as bits, and its priority; 0 if it is consumed or
 * dropped (and counted). PFC frames are honoured. `head` is the first buffer and has all headers; a router
 * rewrites them.
 */
u64 switch_receive(struct soft_switch *self, u32 ingress, struct span head, u32 bytes, u8 *priority, u64 now);

/*
 * Enqueues a frame for one port, with an ECN mark if necessary; false if it is dropped (and counted).
 *
 * A lossless frame that finds its headroom full has arrived while the process was descheduled and could not
 * send XOFF. It lies in one of the port's chunks `ahead` already, and keeps that chunk until it has left.
 * Meanwhile the port's ring has one less; the memory of other ports is not used.
 */
bool switch_admit(struct soft_switch *self, u32 egress, struct packet *packet, u8 *head, u32 chunks, u64 now);

/* The chunks that a port's fill ring may have now. */
static inline u32 switch_ring_chunks(const struct soft_switch *self, u32 port)
{
	return self->port[port].ahead - self->port[port].late;
}

/* Dequeues the next frame to send through a port; NULL if there is none that may be sent now. */
struct packet *switch_take(struct soft_switch *self, u32 egress, u64 now);

/* Dequeues and counts a frame to be dropped because the cable is down; NULL if none waits. */
struct packet *switch_drop(struct soft_switch *self, u32 egress, u64 now);

/* Dequeues and counts a frame to be dropped because of a storm; NULL if none waits. */
struct packet *switch_discard(struct soft_switch *self, u32 egress, u64 now);

/* The PFC frame that a port has to send now; false if there is none. */
bool switch_pause(struct soft_switch *self, u32 port, struct pfc *frame, u64 now);

/* Resumes senders whose limit has risen because of other ports, and updates the counters. */
void switch_settle(struct soft_switch *self, u64 now);

/* When a port may send next; PFC_NEVER if no frame waits. */
u64 switch_next_ns(const struct soft_switch *self, u32 port, u64 now);
