/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forwarding of a layer-3 switch: longest prefix, and among paths of equal cost a hash of the flow, so
 * that each flow stays in order (RFC 2992).
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
	u32 seed; /* differs between switches: otherwise all layers would make the same choice */
};

/* The next hop for a packet of `bytes` from its IPv4 header on; NULL if there is no route. */
const struct router_hop *router_find(const struct router *router, const u8 *ip, u32 bytes);

/* Rewrites the headers for the next hop: MACs, TTL and checksum. */
void router_rewrite(u8 *frame, const struct router_hop *hop, const u8 *own_mac);
