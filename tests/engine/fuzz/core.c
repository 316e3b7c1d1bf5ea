// SPDX-License-Identifier: Apache-2.0
/* The core on a wire in memory: an arrival is a call of a function. */
#include <stdlib.h>
#include <string.h>

#include "engine/wire/wire.h"
#include "peers.h"

#define REGIONS  128
#define IN_QUEUE 64

struct write {
	const u8 *data;
	u32 bytes, immediate;
};

struct wire {
	struct {
		u8 *memory;
		u64 bytes;
	} regions[REGIONS];
	struct write queue[FUZZ_CONNECTIONS][IN_QUEUE];
	u32 queued[FUZZ_CONNECTIONS];
	bool is_closed[FUZZ_CONNECTIONS], is_full, is_abandoned;
	u32 checksum;
};

static bool post_write(void *handle, u32 connection, const void *data, u32 bytes, wire_key key, u64 offset,
		       u32 immediate)
{
	struct wire *wire = handle;

	(void)key, (void)offset;
	if (wire->is_full || wire->queued[connection] == IN_QUEUE)
		return false;
	wire->queue[connection][wire->queued[connection]++] = (struct write){data, bytes, immediate};
	return true;
}

static void read_all(struct wire *wire, const u8 *data, u32 bytes)
{
	for (u32 i = 0; i < bytes; i++)
		wire->checksum += data[i];
}

static bool post_message(void *handle, u32 connection, const void *header, u32 header_bytes,
			 const void *payload, u32 payload_bytes)
{
	struct wire *wire = handle;

	(void)connection;
	if (wire->is_full)
		return false;
	read_all(wire, header, header_bytes);
	read_all(wire, payload, payload_bytes);
	return true;
}

static wire_key register_memory(void *handle, void *memory, u64 bytes)
{
	struct wire *wire = handle;
	u32 key = 1;

	while (key < REGIONS && wire->regions[key].memory)
		key++;
	if (key == REGIONS)
		return 0;
	wire->regions[key].memory = memory;
	wire->regions[key].bytes = bytes;
	return key;
}

/* As a NIC does: writes from the region that have not been sent are dropped. */
static void deregister_memory(void *handle, wire_key key)
{
	struct wire *wire = handle;
	const u8 *memory = wire->regions[key].memory;

	if (!memory)
		abort();
	for (u32 connection = 0; connection < FUZZ_CONNECTIONS; connection++) {
		u32 kept = 0;

		for (u32 i = 0; i < wire->queued[connection]; i++) {
			const struct write *write = &wire->queue[connection][i];

			if (write->data < memory || write->data >= memory + wire->regions[key].bytes)
				wire->queue[connection][kept++] = *write;
		}
		wire->queued[connection] = kept;
	}
	wire->regions[key].memory = NULL;
}

static void abandon(void *handle)
{
	struct wire *wire = handle;

	wire->is_abandoned = true;
	memset(wire->queued, 0, sizeof(wire->queued));
}

static const struct wire_operations operations = {
	.post_write = post_write,
	.post_message = post_message,
	.register_memory = register_memory,
	.deregister_memory = deregister_memory,
	.abandon = abandon,
};

static const struct wire_operations *open_wire(struct world *world)
{
	world->wire = calloc(1, sizeof(struct wire));
	return &operations;
}

static void close_wire(struct world *world)
{
	free(world->wire);
}

/* In memory that ends with the message. */
static void message(struct world *world, u32 connection, const u8 *bytes, u32 length)
{
	const struct wire *wire = world->wire;
	u8 *copy = malloc(length ? length : 1);

	memcpy(copy, bytes, length);
	if (!wire->is_closed[connection])
		core_on_message(world->core, connection, copy, length, world->now_ns);
	free(copy);
}

static void hang_up(struct world *world, u32 connection)
{
	struct wire *wire = world->wire;

	wire->is_closed[connection] = true;
	wire->queued[connection] = 0;
	core_on_closed(world->core, connection, "it closed the connection");
}

static void write_region(struct world *world, u32 connection, wire_key key, u64 offset, u32 bytes,
			 u32 immediate)
{
	struct wire *wire = world->wire;

	if (wire->is_closed[connection])
		return;
	if (key >= REGIONS || !wire->regions[key].memory || bytes > wire->regions[key].bytes ||
	    offset > wire->regions[key].bytes - bytes) {
		hang_up(world, connection);
		return;
	}
	if (!wire->is_abandoned)
		memset(wire->regions[key].memory + offset, 2, bytes);
	core_on_written(world->core, connection, immediate, world->now_ns);
}

static void report_sent(struct world *world, u32 connection)
{
	struct wire *wire = world->wire;
	struct write first = wire->queue[connection][0];

	if (!wire->queued[connection])
		return;
	read_all(wire, first.data, first.bytes);
	wire->queued[connection]--;
	memmove(wire->queue[connection], wire->queue[connection] + 1,
		wire->queued[connection] * sizeof(struct write));
	core_on_sent(world->core, connection, first.immediate);
}

static void progress(struct world *world)
{
	struct wire *wire = world->wire;
	u32 choice = choose(world, 1);

	wire->is_full = choice >= 0xf0;
	for (u32 i = 0; i < (choice & 7); i++)
		report_sent(world, (choice >> 3) % FUZZ_CONNECTIONS);
}

const struct target target = {
	.open = open_wire,
	.close = close_wire,
	.message = message,
	.write = write_region,
	.raw = message,
	.hang_up = hang_up,
	.progress = progress,
};
