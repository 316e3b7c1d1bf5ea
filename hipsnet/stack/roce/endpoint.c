// SPDX-License-Identifier: Apache-2.0
/* The tables of an endpoint. */
#include <stdlib.h>

#include "roce/endpoint_pairs.h"
#include "roce/packet.h"
#include "roce/pair.h"

#define PLACES_MAX 65536

struct endpoint {
	struct rc **pairs;
	u32 pairs_mask;
	struct regions regions;
	u64 random;
	u64 drops[DROP_COUNT];
};

static bool is_size(u32 places)
{
	return places && places <= PLACES_MAX && !(places & (places - 1));
}

struct endpoint *endpoint_create(u32 pairs, u32 regions, u64 seed)
{
	struct endpoint *endpoint = is_size(pairs) && is_size(regions) ? calloc(1, sizeof(*endpoint)) : NULL;

	if (!endpoint)
		return NULL;
	endpoint->pairs = calloc(pairs, sizeof(struct rc *));
	endpoint->pairs_mask = pairs - 1;
	endpoint->random = seed;
	endpoint->regions.table = calloc(regions, sizeof(struct region));
	endpoint->regions.mask = regions - 1;
	endpoint->regions.random = next_random(&endpoint->random);
	if (!endpoint->pairs || !endpoint->regions.table) {
		free(endpoint->pairs);
		free(endpoint->regions.table);
		free(endpoint);
		return NULL;
	}
	return endpoint;
}

void endpoint_destroy(struct endpoint *endpoint)
{
	for (u32 place = 0; place <= endpoint->pairs_mask; place++)
		if (endpoint->pairs[place])
			rc_destroy(endpoint->pairs[place]);
	free(endpoint->pairs);
	free(endpoint->regions.table);
	free(endpoint);
}

u32 endpoint_register(struct endpoint *endpoint, void *base, u64 bytes, u64 address)
{
	return regions_add(&endpoint->regions, base, bytes, address);
}

bool endpoint_deregister(struct endpoint *endpoint, u32 key)
{
	return regions_remove(&endpoint->regions, key);
}

void endpoint_discard(struct endpoint *endpoint)
{
	endpoint->regions.discards = true;
}

struct regions *endpoint_regions(struct endpoint *endpoint)
{
	return &endpoint->regions;
}

/*
 * A QPN has the table index in its lower bits and random bits above: packets for a destroyed pair do not
 * reach its successor at the same index. QPNs 0, 1 (IBTA 3.5.3) and 0xffffff are reserved.
 */
bool endpoint_add_pair(struct endpoint *endpoint, struct rc *rc, u32 *qpn)
{
	for (u32 place = 0; place <= endpoint->pairs_mask; place++) {
		if (endpoint->pairs[place])
			continue;
		do {
			u32 chance = (u32)(next_random(&endpoint->random) >> 40);

			*qpn = (chance & ~endpoint->pairs_mask & PSN_MASK) | place;
		} while (*qpn < 2 || *qpn == PSN_MASK);
		endpoint->pairs[place] = rc;
		return true;
	}
	return false;
}

void endpoint_remove_pair(struct endpoint *endpoint, const struct rc *rc)
{
	struct rc **place = &endpoint->pairs[rc->qpn & endpoint->pairs_mask];

	if (*place == rc)
		*place = NULL;
}

static enum drop find_pair(const struct endpoint *endpoint, const struct packet *packet, struct rc **found)
{
	struct rc *rc = endpoint->pairs[packet->bth.qpn & endpoint->pairs_mask];

	if (!rc || rc->qpn != packet->bth.qpn || rc->state == RC_IDLE)
		return DROP_no_pair;
	if (packet->ip.to != rc->config.local_ip || packet->ip.from != rc->config.peer_ip)
		return DROP_address;
	*found = rc;
	return DROP_COUNT;
}

struct rc *endpoint_receive(struct endpoint *endpoint, const struct span *frame, u32 spans, u64 now_ns)
{
	struct packet packet;
	struct rc *rc = NULL;
	enum drop drop =
		spans && spans <= PACKET_SPANS ? packet_parse(frame, spans, &packet) : DROP_truncated;

	if (drop == DROP_COUNT)
		drop = find_pair(endpoint, &packet, &rc);
	if (drop == DROP_COUNT && !packet_icrc_holds(frame, spans, &packet))
		drop = DROP_icrc;
	if (drop == DROP_COUNT && !rc_receive(rc, frame, &packet, now_ns))
		drop = DROP_state;
	if (drop == DROP_COUNT)
		return rc;
	endpoint->drops[drop]++;
	return NULL;
}

const u64 *endpoint_drops(const struct endpoint *endpoint)
{
	return endpoint->drops;
}
