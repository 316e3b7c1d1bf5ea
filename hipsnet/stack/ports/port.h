/* SPDX-License-Identifier: Apache-2.0 */
/* One port of a stack; see ports/stack.h. */
#pragma once

#include "cable/pacer.h"
#include "cable/pfc.h"
#include "cable/watchdog.h"
#include "pauses.h"
#include "ports/busy_poll.h"
#include "ports/stack.h"

#define PORT_RETRY_NS 50000ULL /* when the interface is full */
#define PORT_BATCH    64       /* frames received before any is sent */
#define TRANSIT_NONE  (~0U)

/* A pair that sends through the port. */
struct stack_pair {
	struct rc *rc;
	u32 tag;
	u8 priority;
};

/* Frames in transit that wait for a port, by their index in `held`. */
struct transit_queue {
	u32 first, last, count;
	u64 settled_ns; /* when no frame from the program can still be on its way to the socket */
};

struct stack_port {
	struct xsk *xsk;
	struct stack_port_config config;
	struct pacer pacer;
	struct pfc_port pfc;
	struct pauses *pauses; /* shared with the port's program, or `own` */
	struct pauses own;
	struct transit_queue transit[PRIORITIES];
	u64 sent[PRIORITIES]; /* frames in transit that have left */
	struct watchdog watchdog;
	struct watchdog_queue watched[PRIORITIES];
	u8 storming; /* a bit for each priority */
	u64 watch_ns;
	u64 settle_ns;    /* the next update of the pause counters */
	u32 held_chunks;  /* of frames received here that wait for another port */
	u32 stale_chunks; /* in the socket, of frames too old to be sent on */
	struct stack_pair *pairs;
	u32 count, room; /* of pairs */
	u32 turn;        /* the pair that sends next */
	u64 wake_ns;     /* when there is something to send */
	int unsent;      /* descriptors that the kernel has not sent, or -errno */
	bool is_frozen;
	struct stack_port_counters counters;
};

/* A frame in transit. */
struct held_frame {
	struct xsk_frame frame;
	struct stack_port *from;
	u32 next;
};

struct stack {
	struct endpoint *endpoint;
	struct stack_port *ports[STACK_MOST_PORTS];
	u32 count;
	u64 polled_ns; /* the last time that the loop ran */
	struct held_frame *held;
	u32 free;      /* the first free entry of `held` */
	bool is_busy;  /* a batch was full: run the loop again before a sleep */
	u64 stream_ns; /* sleep between two wake-ups while frames stream in; else 0 */
	u32 look_frames, look_completions;
	u64 look_ns;
	struct busy_poll busy_poll;
};

/* There is something to send at that time. */
static inline void port_wake_at(struct stack_port *port, u64 at_ns)
{
	if (at_ns < port->wake_ns)
		port->wake_ns = at_ns;
}

/* Handles a batch of received frames; returns their number. */
u32 port_receive(struct stack *stack, struct stack_port *port, u64 now_ns);

/* Sends what is due and permitted, at most a batch, and sets wake_ns; true if the batch was full. */
bool port_send(struct stack *stack, struct stack_port *port, u64 now_ns);
