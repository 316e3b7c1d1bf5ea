// SPDX-License-Identifier: Apache-2.0
/* See switch/bridge.h. */
#include "switch/bridge.h"

#include <stddef.h>

static u64 number_of(const u8 *mac)
{
	return (u64)get16(mac) << 32 | get32(mac + 2);
}

static u32 slot_of(u64 number, u32 step)
{
	return ((u32)(number * 0x9e3779b97f4a7c15ULL >> 40) + step) & (BRIDGE_SLOTS - 1);
}

static struct bridge_entry *find(const struct bridge *bridge, u64 number)
{
	for (u32 step = 0; number && step < BRIDGE_PROBE; step++) {
		const struct bridge_entry *entry = &bridge->entries[slot_of(number, step)];

		if (entry->mac == number)
			return (struct bridge_entry *)entry;
	}
	return NULL;
}

/* A free slot, else the least recently seen one; NULL if all are fixed. */
static struct bridge_entry *make_room(struct bridge *bridge, u64 number)
{
	struct bridge_entry *oldest = NULL;

	for (u32 step = 0; step < BRIDGE_PROBE; step++) {
		struct bridge_entry *entry = &bridge->entries[slot_of(number, step)];

		if (!entry->mac)
			return entry;
		if (!entry->fixed && (!oldest || entry->seen_ns < oldest->seen_ns))
			oldest = entry;
	}
	return oldest;
}

bool bridge_fix(struct bridge *bridge, const u8 *mac, u8 port)
{
	u64 number = number_of(mac);
	struct bridge_entry *entry = find(bridge, number);

	entry = entry || !number ? entry : make_room(bridge, number);
	if (entry)
		*entry = (struct bridge_entry){.mac = number, .port = port, .fixed = true};
	return entry != NULL;
}

void bridge_learn(struct bridge *bridge, const u8 *mac, u8 port, u64 now)
{
	u64 number = number_of(mac);
	struct bridge_entry *entry = find(bridge, number);

	if (mac[0] & 1 || !number || (entry && entry->fixed))
		return;
	entry = entry ? entry : make_room(bridge, number);
	if (entry)
		*entry = (struct bridge_entry){.mac = number, .seen_ns = now, .port = port};
}

int bridge_find(const struct bridge *bridge, const u8 *mac)
{
	const struct bridge_entry *entry = find(bridge, number_of(mac));

	return entry ? entry->port : -1;
}
