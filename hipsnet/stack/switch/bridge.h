/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forwarding table of a layer-2 switch: the MACs of the configuration, which stay, and learned ones, of
 * which the least recently seen is replaced when there is no free slot.
 */
#pragma once

#include <stdbool.h>

#include "wire/ip.h"
#include "wire/types.h"

#define BRIDGE_SLOTS 4096 /* a power of two */
#define BRIDGE_PROBE 8    /* candidate slots of a MAC */

struct bridge_entry {
	u64 mac; /* in the low 48 bits; 0: free */
	u64 seen_ns;
	u8 port;
	bool fixed;
};

struct bridge {
	struct bridge_entry entries[BRIDGE_SLOTS];
};

/* Fixes the port of a MAC; false if there is no free slot, or the MAC is 0, which no interface has. */
bool bridge_fix(struct bridge *bridge, const u8 *mac, u8 port);

/* Learns that a source MAC is behind a port. */
void bridge_learn(struct bridge *bridge, const u8 *mac, u8 port, u64 now);

/* The port of a MAC; -1 if it is unknown. */
int bridge_find(const struct bridge *bridge, const u8 *mac);
