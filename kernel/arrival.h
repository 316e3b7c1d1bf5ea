/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The start of every program on a port: which port it is, and whether the frame has arrived there. */
#pragma once

#include "delay.h"
#include "parse.h"
#include "tables.h"

BPF_ARRAY(port_of, u32, MAX_IFINDEX); /* port index + 1 by ifindex; 0: not a port of the node */
BPF_ARRAY(ports, struct port, MAX_PORTS);
BPF_PERCPU_ARRAY(counters, struct counters, MAX_PORTS);
RINGS(rings);

struct arrival {
	u32 index;
	u64 bytes; /* of the whole frame, if it has arrived */
	struct port *port;
	struct counters *count;
	int verdict; /* for a frame that has not arrived */
};

/* False if the frame has not arrived: it is delayed, lost, or (verdict `stray`) not at a port of the node. */
static __always_inline bool arrive(struct xdp_md *frame, struct arrival *at, const int stray)
{
	u32 ifindex = frame->ingress_ifindex;
	u32 *number = port_of.lookup(&ifindex);

	at->verdict = stray;
	if (!number || !*number)
		return false;
	/* A map key has to be in memory: with a variable of its own, `at` stays in registers. */
	u32 index = *number - 1;

	at->index = index;
	at->port = ports.lookup(&index);
	at->count = counters.lookup(&index);
	if (!at->port || !at->count)
		return false;

	void *ring = at->port->delay_us ? rings.lookup(&index) : NULL;
	at->verdict = pass_cable(frame, at->port, ring, at->count, &at->bytes);
	return at->verdict == XDP_PASS;
}
