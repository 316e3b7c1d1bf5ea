// SPDX-License-Identifier: Apache-2.0
/* See switch/router.h. */
#include "switch/router.h"

#include <stddef.h>

enum { PROTOCOL_TCP = 6 };

static u32 mix(u32 hash, u32 word)
{
	hash = (hash ^ word) * 0x85ebca6bu;
	return hash ^ hash >> 15;
}

/* Of addresses, protocol and, unless the packet is a fragment or too short, the ports. */
static u32 flow_hash(const u8 *ip, u32 bytes, u32 seed)
{
	u32 header = (ip[IPV4_VERSION] & 15u) * 4;
	u8 protocol = ip[IPV4_PROTOCOL];
	bool is_part = get16(ip + IPV4_FRAGMENT) & 0x3fff;
	u32 hash = mix(mix(mix(seed, get32(ip + IPV4_FROM)), get32(ip + IPV4_TO)), protocol);

	if ((protocol == PROTOCOL_UDP || protocol == PROTOCOL_TCP) && !is_part && bytes >= header + 4)
		hash = mix(hash, get32(ip + header));
	return hash ^ hash >> 13;
}

const struct router_hop *router_find(const struct router *router, const u8 *ip, u32 bytes)
{
	u32 to = get32(ip + IPV4_TO);

	for (u32 i = 0; i < router->count; i++) {
		const struct router_route *route = &router->routes[i];

		if ((to & route->mask) != route->prefix)
			continue;
		u32 way = route->count > 1 ? flow_hash(ip, bytes, router->seed) % route->count : 0;
		return &route->hops[way];
	}
	return NULL;
}

void router_rewrite(u8 *frame, const struct router_hop *hop, const u8 *own_mac)
{
	u8 *ip = frame + ETHERNET_BYTES;
	u32 sum = get16(ip + IPV4_CHECKSUM) + 0x0100u; /* RFC 1141: the TTL is the upper half of its word */

	memcpy(frame + ETHERNET_TO, hop->mac, MAC_BYTES);
	memcpy(frame + ETHERNET_FROM, own_mac, MAC_BYTES);
	ip[IPV4_TTL]--;
	put16(ip + IPV4_CHECKSUM, (u16)(sum + (sum >= 0xffff)));
}
