/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the verbs wire: what waits, what is under way, and the regions that the peer announced.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "engine/wire/verbs.h"
#include "engine/wire/verbs_flow.h"
#include "engine/wire/wire.h"

#define VERBS_ANNOUNCEMENT 24           /* bytes: key, remote key, address, length */
#define VERBS_PROBE_NUMBER (1ULL << 63) /* numbers of other requests stay far below */
#define VERBS_SENDS_MAX    64
#define VERBS_LOOK_NS      1000000000

enum verbs_message { VERBS_CREDIT, VERBS_MESSAGE, VERBS_ANNOUNCE };

/* A write or a message that is not posted yet; a message is in the ring, behind space for its header. */
struct verbs_work {
	u8 kind;    /* enum verbs_kind */
	u8 message; /* enum verbs_message */
	const u8 *data;
	u32 bytes, ring_bytes;
	wire_key key;
	u64 offset;
	u32 immediate;
};

/* A piece that is posted and not acknowledged. */
struct verbs_piece {
	bool is_write;
	u32 immediate;
	u32 ring_bytes; /* freed in the ring by the acknowledgement */
};

struct verbs_remote_region {
	u32 key;
	u64 address, bytes;
};

struct verbs_connection {
	u32 device, queue_pair;
	int socket;
	bool is_open, has_news; /* news: the socket is readable */
	char *gid_file, *gid;
	u8 *slots, *ring, *credits;
	u32 local_key, inline_bytes;
	u64 landing_address;
	u32 landing_key;

	struct verbs_flow flow;
	struct verbs_work waiting[VERBS_QUEUE];
	u32 first, end;                             /* of `waiting`; never wrapped */
	struct verbs_piece pieces[VERBS_SENDS_MAX]; /* by number % sends */
	u32 ring_first, ring_end;                   /* never wrapped */
	u32 unsignalled;

	u32 *used_slots; /* received, to be posted again */
	u32 used, paid;  /* their number; of these, without credit messages */

	struct verbs_remote_region *there; /* by key */
	u64 to_announce[VERBS_REGIONS / 64];
	u32 announcements; /* bits set there */

	bool is_probing;
	u64 answered_ns; /* the last acknowledgement, or a time when none was due */
};

/* Registered local memory. */
struct verbs_region {
	u8 *memory; /* NULL: the key is free */
	u64 bytes;
	u32 uses;
	bool is_announced;
	bool is_released_here; /* after its last use, by owner.unpin() */
};

struct verbs_wire {
	struct verbs_posting posting;
	struct verbs_owner owner;
	u32 devices, connections, receives, signal_every, slot_bytes, ring_bytes;
	u64 silent_ns, next_look_ns;
	int epoll;
	u64 calls;
	bool *is_armed; /* by device */
	struct verbs_connection *connection;

	bool is_abandoned;
	pthread_mutex_t regions_lock; /* never held during a call of `owner` or the core */
	struct verbs_region regions[VERBS_REGIONS];
	u32 *local_keys, *remote_keys;         /* by key * devices + device */
	u32 used_regions[VERBS_REGIONS], used; /* keys of the regions in use */
};

/* verbs_send.c */
bool verbs_queue_write(struct verbs_connection *self, const void *data, u32 bytes, wire_key key, u64 offset,
		       u32 immediate);
bool verbs_queue_message(struct verbs_wire *wire, struct verbs_connection *self, const void *header,
			 u32 header_bytes, const void *payload, u32 payload_bytes);
void verbs_abandon(struct verbs_connection *self);
void verbs_send(struct verbs_wire *wire, u32 connection, struct core *core, u64 now_ns);
void verbs_probe(struct verbs_wire *wire, u32 connection, struct core *core, u64 now_ns);

/* All pieces before this number have arrived. */
void verbs_acknowledge(struct verbs_wire *wire, u32 connection, struct core *core, u64 number);

/* verbs_receive.c */
void verbs_collect(struct verbs_wire *wire, u32 device, struct core *core, u64 now_ns);

/* verbs_watch.c: the ends of connections, and what they are detected by. */
bool verbs_awaits_answer(const struct verbs_connection *self);
void verbs_hear(struct verbs_wire *wire, u32 connection, struct core *core);
void verbs_look(struct verbs_wire *wire, struct core *core, u64 now_ns);

/* Ends a connection whose first `arrived` pieces had reached the peer; `words` for VERBS_END_WORDS. */
void verbs_end(struct verbs_wire *wire, u32 connection, struct core *core, u32 reason, u64 first, u64 second,
	       const char *words, u64 arrived);

/* verbs_regions.c */
wire_key verbs_register(struct verbs_wire *wire, void *memory, u64 bytes);
void verbs_deregister(struct verbs_wire *wire, wire_key key);

/* All calls have failed: their memory may be deregistered at once, before it is freed. */
void verbs_abandon_regions(struct verbs_wire *wire);

/* The local key of registered memory; false if it is not registered. */
bool verbs_local_key(struct verbs_wire *wire, u32 device, const u8 *data, u32 bytes, u32 *key);

/* Writes at most `most` pending announcements to `out`; returns their number. */
u32 verbs_take_announcements(struct verbs_wire *wire, struct verbs_connection *self, u8 *out, u32 most);

static inline void verbs_put(u8 *at, u64 value, u32 bytes)
{
	for (u32 i = 0; i < bytes; i++)
		at[i] = value >> 8 * i;
}

static inline u64 verbs_get(const u8 *at, u32 bytes)
{
	u64 value = 0;

	for (u32 i = 0; i < bytes; i++)
		value |= (u64)at[i] << 8 * i;
	return value;
}
