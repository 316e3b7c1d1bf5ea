/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The entries of the programs' maps. Python derives its layouts from these, through the compiler. */
#pragma once

#include "pauses.h"
#include "reasons.h"

#define MAX_PORTS    256
#define MAX_IFINDEX  4096
#define MAX_PREFIXES 65536

#define ACTION_LOCAL   1
#define ACTION_FORWARD 2

/* A port of the node, by its index. */
struct port {
	u32 ifindex;
	u32 loss_ppm; /* injected loss of incoming frames */
	u32 mtu;      /* when the program last read it */
	u32 delay_us; /* of incoming frames; 0: they bypass the delay line */
	u8 mac[6];
};

/* The key of a route. The LPM trie prescribes the order of the fields. */
struct prefix {
	u32 bits;
	u8 address[4];
};

/* A MAC of zeros: the next hop is not resolved yet. */
struct next_hop {
	u32 action;
	u32 port;
	u8 mac[6];
};

#define REASON_FIELD(name, meaning) u64 name;

/* Of one port on one CPU. rx counts all incoming frames and is the sum of the reasons; tx counts the frames
 * that XDP sent out of this port. */
struct counters {
	u64 rx_frames;
	u64 rx_bytes;
	u64 tx_frames;
	u64 tx_bytes;
	u64 pfc[PAUSE_PRIORITIES];
	REASONS(REASON_FIELD)
};

static __always_inline int up(u64 *reason)
{
	(*reason)++;
	return XDP_PASS;
}

static __always_inline int drop(u64 *reason)
{
	(*reason)++;
	return XDP_DROP;
}

static __always_inline bool is_lost(const struct port *port)
{
	return port->loss_ppm && ((u64)bpf_get_prandom_u32() * 1000000 >> 32) < port->loss_ppm;
}

static __always_inline void count_pfc(struct counters *count, __be16 class_enable)
{
	u16 enabled = bpf_ntohs(class_enable);

#pragma unroll
	for (int priority = 0; priority < PAUSE_PRIORITIES; priority++)
		if (enabled & (1 << priority))
			count->pfc[priority]++;
}
