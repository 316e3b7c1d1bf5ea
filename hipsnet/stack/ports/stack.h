/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop of a process: several ports and one endpoint, in one thread.
 *
 * Frames from all ports go to the endpoint's pairs. Each pair sends through one port, in turn with the other
 * pairs there, as the port's rate and the pauses of its priority permit. The kernel's queueing disciplines do
 * not see what an AF_XDP socket sends, so the rate of the cable is enforced here.
 *
 * A port's receive buffer consists of the frames in its socket, and of those that it received and that wait
 * for another port (ports/transit.h). Above `xoff_chunks` the port pauses its priority at the peer by PFC,
 * until at most `xon_chunks` are left.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. The Python bindings read this file (roce/core.py): it may contain
 * declarations and macros that are numbers, nothing else.
 */
#pragma once

#include <stdbool.h>

#include "roce/endpoint.h"
#include "roce/rc.h"
#include "wire/types.h"
#include "xsk/xsk.h"

#define STACK_MOST_PORTS     64
#define STACK_MOST_OTHERS    4    /* descriptors of the caller that end a sleep */
#define STACK_TRANSIT_FRAMES 4096 /* in transit, of all ports together, at most */

struct stack;
struct pauses;
struct pollfd;

struct stack_port_config {
	u32 key; /* the port's number on its node */
	u8 mac[6];
	u8 priority;     /* paused at the peer when the receive buffer is full */
	u64 rate_bps;    /* of frames with their Ethernet header; 0: no limit */
	u64 burst_ns;    /* by which a delayed port may exceed the rate */
	u32 xoff_chunks; /* of 4096 bytes; 0: the port never pauses its peer */
	u32 xon_chunks;
	u64 detect_ns, restore_ns; /* of the watchdog over frames in transit (cable/watchdog.h) */
	u32 storm_action;          /* enum watchdog_action */
};

/* An rc_completion of the pair that was added with `tag`. */
struct stack_completion {
	u64 id;
	u32 tag, kind, status, bytes, immediate;
	bool has_immediate;
};

struct stack_port_counters {
	u64 rx_frames, rx_pauses, rx_dropped; /* dropped: by the endpoint, or malformed PFC frames */
	u64 tx_frames, tx_bytes, tx_pauses;
	u64 paced;                           /* times that the rate delayed a frame */
	u64 paused;                          /* times that a pause delayed a frame */
	u64 most_waiting;                    /* chunks in the socket, at most */
	u64 transit_frames, transit_dropped; /* received here for another port: held; dropped */
	u64 most_held;                       /* chunks held in transit, at most */
	u64 storms, storm_dropped;           /* storms detected; frames dropped in them */
};

/* A loop for an endpoint. The caller keeps the endpoint, which must outlive the loop. NULL if memory is
 * short. */
struct stack *stack_open(struct endpoint *endpoint);
void stack_close(struct stack *stack);
struct endpoint *stack_endpoint(const struct stack *stack);

/*
 * Maps the node's map `pauses` (kernel/pauses.h) by its descriptor. It is shared with the ports' program, and
 * its counters may be read by other processes. NULL if it cannot be mapped.
 */
struct pauses *stack_map_pauses(int map, u32 ports);
void stack_unmap_pauses(struct pauses *pauses, u32 ports);
struct pauses *stack_pauses_of(struct pauses *pauses, u32 port);

/*
 * Adds a port and returns its number, -1 if there are too many. The caller keeps the socket and the pauses;
 * with NULL for the pauses, the stack has its own. Frames in transit require that all sockets share one
 * memory.
 */
int stack_add_port(struct stack *stack, struct xsk *xsk, const struct stack_port_config *config,
		   struct pauses *pauses);

/* The pair sends through this port from now on; false if memory is short. It must outlive the stack. */
bool stack_add_pair(struct stack *stack, u32 port, struct rc *pair, u32 tag, u8 priority);

/*
 * The parts of a loop: receive, take the pairs' completions (rc_poll_completion), note their number, send,
 * sleep until stack_due_ns(). Other threads may send, under the caller's lock, while one sleeps without it.
 */

/* Receives a batch from each port; returns the number of frames. */
u32 stack_receive(struct stack *stack, u64 now_ns);

/* These frames have completed so many messages: stack_sleep() decides by that how to wait. */
void stack_note(struct stack *stack, u32 frames, u32 completions, u64 now_ns);

/* Sends a batch on each port; -errno if a port is gone for good. */
int stack_send(struct stack *stack);

/* When the loop has something to do, independent of arrivals; 0: at once. */
u64 stack_due_ns(const struct stack *stack);

/* Sleeps until a frame arrives, one of `count` other descriptors is ready (their `revents` are set), or the
 * time has come; -errno. */
int stack_sleep(struct stack *stack, struct pollfd *others, u32 count, u64 until_ns);

/* Makes ACKs due at once that are due before `before_ns`. */
void stack_flush_acks(struct stack *stack, u64 before_ns);

/* Whether data, ACKs or frames in transit remain to be sent. */
bool stack_is_owing(const struct stack *stack);

/*
 * The whole loop, for a single thread: runs until there are completions, a signal arrives, or `timeout_ns`
 * has passed. Writes at most `most` completions and returns their number; -errno if a port is gone for good.
 */
int stack_poll(struct stack *stack, u64 timeout_ns, struct stack_completion *completions, u32 most);

/* A frozen port leaves received frames in its socket, like a host that has hung. For experiments. */
void stack_freeze(struct stack *stack, u32 port, bool is_frozen);

const struct stack_port_counters *stack_port_counters(const struct stack *stack, u32 port);
