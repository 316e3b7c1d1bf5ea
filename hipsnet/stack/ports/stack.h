/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of a process: several ports in one thread, an endpoint behind them.
 *
 * Frames that come in by any port go to the endpoint's pairs; each pair sends by the port that it was given
 * to, in turn with the others there, as the port's rate and the pauses of its priority allow. The kernel's
 * queueing disciplines do not see what an AF_XDP socket sends: the rate of the cable is held here.
 *
 * A port's receive buffer is what waits in its socket. Above `xoff_chunks` of it, with what came in by the
 * port and waits to pass through (ports/transit.h), the other end of the cable is told to stop the port's
 * priority, by PFC, again and again until no more than `xon_chunks` are left.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. The Python face reads this file (roce/core.py): declarations
 * only, and no macros but numbers.
 */
#pragma once

#include <stdbool.h>

#include "roce/endpoint.h"
#include "roce/rc.h"
#include "wire/types.h"
#include "xsk/xsk.h"

#define STACK_MOST_PORTS     64
#define STACK_NO_WATCH       (-1)
#define STACK_TRANSIT_FRAMES 4096 /* that may wait to pass through, of all ports together */

struct stack;
struct pauses;

struct stack_port_config {
	u32 key; /* the port's number on its node */
	u8 mac[6];
	u8 priority;     /* what is stopped when the receive buffer is full */
	u64 rate_bps;    /* of frames with their Ethernet header; 0: any */
	u64 burst_ns;    /* what a port that was late may catch up with */
	u32 xoff_chunks; /* of 4096 bytes; 0: never stops anybody */
	u32 xon_chunks;
	u64 detect_ns, restore_ns; /* of the watchdog over what passes through (cable/watchdog.h) */
	u32 storm_action;          /* its, 0: there is none */
};

/* What has become of something that was posted, or has come: of the pair that was added with `tag`. */
struct stack_completion {
	u64 id;
	u32 tag, kind, status, bytes, immediate;
	bool has_immediate;
};

struct stack_port_counters {
	u64 rx_frames, rx_pauses, rx_dropped; /* dropped: the endpoint wanted nothing of them */
	u64 tx_frames, tx_bytes, tx_pauses;
	u64 paced;                           /* times that the rate made us wait */
	u64 paused;                          /* times that a pause did */
	u64 most_waiting;                    /* chunks that were ever seen in the receive buffer */
	u64 transit_frames, transit_dropped; /* that came in and waited for another port; found no room */
	u64 most_held;                       /* chunks that ever waited so */
	u64 storms, storm_dropped;           /* that the watchdog has detected; frames that it has lost */
};

/* A loop for an endpoint, which stays the caller's and must outlive it. NULL if memory is short. */
struct stack *stack_open(struct endpoint *endpoint);
void stack_close(struct stack *stack);

/*
 * The pauses of a node's ports, behind a descriptor of its map `pauses` (kernel/pauses.h): counted where
 * others may read them, and known to the ports' program. NULL if they cannot be mapped.
 */
struct pauses *stack_map_pauses(int map, u32 ports);
void stack_unmap_pauses(struct pauses *pauses, u32 ports);
struct pauses *stack_pauses_of(struct pauses *pauses, u32 port);

/*
 * Adds a port and gives its number, -1 if there are too many. The socket and the pauses stay the caller's.
 * Without pauses (NULL) they are counted in the stack alone. Frames pass through from port to port if their
 * sockets have one memory.
 */
int stack_add_port(struct stack *stack, struct xsk *xsk, const struct stack_port_config *config,
		   struct pauses *pauses);

/* From now on the pair sends by the port, in a priority; false if memory is short. It must outlive the stack.
 */
bool stack_add_pair(struct stack *stack, u32 port, struct rc *pair, u32 tag, u8 priority);

/* A descriptor that ends a wait when it is readable, or STACK_NO_WATCH. */
void stack_watch(struct stack *stack, int fd);

/* Whether the watched descriptor was readable when the last stack_poll() waited. */
bool stack_is_watched_ready(const struct stack *stack);

/*
 * Receives and sends until there are completions, the watched descriptor is readable, a signal came, or
 * `timeout_ns` has passed, and sleeps while there is nothing to do. Returns how many completions it wrote to
 * `completions`, which has room for `most`; -errno if a port is gone for good.
 */
int stack_poll(struct stack *stack, u64 timeout_ns, struct stack_completion *completions, u32 most);

/*
 * Sends what this process owes to others, for a caller that will not poll for a while: ACKs (they do not wait
 * for others here), packets for which window and credits leave space, and frames that pass through. Returns
 * when all of it has left, or after `timeout_ns`: rates and pauses are kept. Frames are received meanwhile;
 * their completions wait for stack_poll(). 0, or -errno if a port is gone for good.
 */
int stack_flush(struct stack *stack, u64 timeout_ns);

/* Whether anything waits to be sent: packets, acknowledgements, or frames in a transmit ring. */
bool stack_is_idle(struct stack *stack);

/* A frozen port leaves what comes in where it is: a host that has stopped taking. For experiments. */
void stack_freeze(struct stack *stack, u32 port, bool is_frozen);

const struct stack_port_counters *stack_port_counters(const struct stack *stack, u32 port);
