/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a layer-3 switch sends a packet: by the longest prefix, and among equal ways by a hash of the flow,
 * so that a flow keeps its order (RFC 2992).
 */
#pragma once

#include <stdbool.h>

#include "wire/ip.h"
#include "wire/types.h"

#define ROUTER_WAYS 16

struct router_hop {
	u8 port;
	u8 mac[MAC_BYTES]; /* of the next hop */
};

struct router_route {
	u32 prefix, mask;
	u32 count;
	struct router_hop hops[ROUTER_WAYS];
};

/* Routes with longer prefixes come first. */
struct router {
	struct router_route *routes;
	u32 count;
	u32 seed; /* differs between switches: else each layer would choose as the one before */
};

/* The way of a packet, by its IPv4 header and what follows in `bytes`; NULL if there is no route. */
const struct router_hop *router_find(const struct router *router, const u8 *ip, u32 bytes);

/* Rewrites the headers for the next hop: its MACs, and the TTL with its checksum. */
void router_rewrite(u8 *frame, const struct router_hop *hop, const u8 *own_mac);
