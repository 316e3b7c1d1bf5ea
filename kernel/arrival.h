/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How every program on a port begins: which port it is, and whether the frame has arrived there. */
#pragma once

#include "delay.h"
#include "parse.h"
#include "tables.h"

BPF_ARRAY(port_of, u32, MAX_IFINDEX); /* port index + 1 by ifindex, 0 for others */
BPF_ARRAY(ports, struct port, MAX_PORTS);
BPF_PERCPU_ARRAY(counters, struct counters, MAX_PORTS);
RINGS(rings);

struct arrival {
	u32 index;
	u64 bytes; /* of the frame, whole, if it has arrived */
	struct port *port;
	struct counters *count;
	int verdict; /* on a frame that has not arrived */
};

/* False if the frame has not arrived: it is held, lost, or (with the verdict `stray`) at no port of ours. */
static __always_inline bool arrive(struct xdp_md *frame, struct arrival *at, const int stray)
{
	u32 ifindex = frame->ingress_ifindex;
	u32 *number = port_of.lookup(&ifindex);

	at->verdict = stray;
	if (!number || !*number)
		return false;
	/* A key lies in memory: one of its own lets `at` stay in registers. */
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
