// SPDX-License-Identifier: Apache-2.0
/*
 * Registered memory by key, and what of it the peers know.
 *
 * Python registers memory and keeps it registered for as long as its owner lives, so that the second call
 * with an array registers nothing. A key is announced to a peer before the first message that can name it.
 */
#include <string.h>

#include "engine/wire/verbs_connection.h"

void verbs_wire_add_region(struct verbs_wire *wire, u32 key, void *memory, u64 bytes, const u32 *local_keys,
			   const u32 *remote_keys)
{
	if (!key || key >= VERBS_REGIONS)
		return;
	pthread_mutex_lock(&wire->regions_lock);
	wire->regions[key] = (struct verbs_region){.memory = memory, .bytes = bytes};
	memcpy(wire->local_keys + key * wire->devices, local_keys, wire->devices * sizeof(u32));
	memcpy(wire->remote_keys + key * wire->devices, remote_keys, wire->devices * sizeof(u32));
	pthread_mutex_unlock(&wire->regions_lock);
}

void verbs_abandon_regions(struct verbs_wire *wire)
{
	pthread_mutex_lock(&wire->regions_lock);
	wire->is_abandoned = true;
	pthread_mutex_unlock(&wire->regions_lock);
}

static void stop_using(struct verbs_wire *wire, u32 key)
{
	for (u32 i = 0; i < wire->used; i++)
		if (wire->used_regions[i] == key)
			wire->used_regions[i] = wire->used_regions[--wire->used];
}

bool verbs_wire_remove_region(struct verbs_wire *wire, u32 key, bool later)
{
	bool is_removed;

	if (!key || key >= VERBS_REGIONS)
		return true;
	pthread_mutex_lock(&wire->regions_lock);
	is_removed = !wire->regions[key].uses || wire->is_abandoned;
	if (is_removed) {
		stop_using(wire, key);
		wire->regions[key] = (struct verbs_region){0};
	} else {
		wire->regions[key].is_released_here |= later;
	}
	pthread_mutex_unlock(&wire->regions_lock);
	return is_removed;
}

/* Counts a use of the region with exactly this memory; its key, or 0 if there is none. */
static u32 use(struct verbs_wire *wire, const void *memory, u64 bytes)
{
	for (u32 key = 1; key < VERBS_REGIONS; key++) {
		struct verbs_region *region = &wire->regions[key];

		if (region->memory != memory || region->bytes != bytes)
			continue;
		if (!region->uses++)
			wire->used_regions[wire->used++] = key;
		return key;
	}
	return 0;
}

static void announce(struct verbs_wire *wire, u32 key)
{
	for (u32 i = 0; i < wire->connections; i++) {
		struct verbs_connection *self = &wire->connection[i];
		u64 bit = 1ULL << key % 64;

		self->announcements += !(self->to_announce[key / 64] & bit);
		self->to_announce[key / 64] |= bit;
	}
}

wire_key verbs_register(struct verbs_wire *wire, void *memory, u64 bytes)
{
	bool is_pinned = false;
	u32 key;

	pthread_mutex_lock(&wire->regions_lock);
	key = use(wire, memory, bytes);
	if (!key) {
		pthread_mutex_unlock(&wire->regions_lock);
		is_pinned = wire->owner.pin(wire->owner.context, memory, bytes) != 0;
		pthread_mutex_lock(&wire->regions_lock);
		key = is_pinned ? use(wire, memory, bytes) : 0;
	}
	if (key) {
		wire->regions[key].is_released_here |= is_pinned;
		if (!wire->regions[key].is_announced)
			announce(wire, key);
		wire->regions[key].is_announced = true;
	}
	pthread_mutex_unlock(&wire->regions_lock);
	return key;
}

void verbs_deregister(struct verbs_wire *wire, wire_key key)
{
	bool is_unpinned = false;

	pthread_mutex_lock(&wire->regions_lock);
	if (wire->regions[key].uses && !--wire->regions[key].uses) {
		stop_using(wire, key);
		is_unpinned = wire->regions[key].is_released_here;
	}
	pthread_mutex_unlock(&wire->regions_lock);
	if (is_unpinned)
		wire->owner.unpin(wire->owner.context, key);
}

bool verbs_local_key(struct verbs_wire *wire, u32 device, const u8 *data, u32 bytes, u32 *key)
{
	bool is_found = false;

	pthread_mutex_lock(&wire->regions_lock);
	for (u32 i = 0; i < wire->used && !is_found; i++) {
		const struct verbs_region *region = &wire->regions[wire->used_regions[i]];

		is_found = data >= region->memory && bytes <= region->bytes &&
			   (u64)(data - region->memory) <= region->bytes - bytes;
		*key = wire->local_keys[wire->used_regions[i] * wire->devices + device];
	}
	pthread_mutex_unlock(&wire->regions_lock);
	return is_found;
}

u32 verbs_take_announcements(struct verbs_wire *wire, struct verbs_connection *self, u8 *out, u32 most)
{
	u32 count = 0;

	pthread_mutex_lock(&wire->regions_lock);
	for (u32 word = 0; word < VERBS_REGIONS / 64; word++) {
		while (self->to_announce[word] && count < most) {
			u32 key = word * 64 + __builtin_ctzll(self->to_announce[word]);
			const struct verbs_region *region = &wire->regions[key];
			u8 *at = out + count++ * VERBS_ANNOUNCEMENT;

			self->to_announce[word] &= self->to_announce[word] - 1;
			self->announcements--;
			verbs_put(at, key, 4);
			verbs_put(at + 4, wire->remote_keys[key * wire->devices + self->device], 4);
			verbs_put(at + 8, (u64)(uintptr_t)region->memory, 8);
			verbs_put(at + 16, region->memory ? region->bytes : 0, 8);
		}
	}
	pthread_mutex_unlock(&wire->regions_lock);
	return count;
}
