// SPDX-License-Identifier: Apache-2.0
/* Moves frames between the sockets and the cores; see switch/machine.h. */
#include <string.h>

#include "switch/machine.h"

#define BATCH    32          /* frames of one port per turn */
#define DOWN_NS  10000000ULL /* between two tries on a cable that is down */
#define RETRY_NS 20000ULL    /* when an interface is full */

/* Receiving */

static void give_back(struct machine *machine, u32 frame)
{
	machine->frames[frame].next_free = machine->free_frames.first_free;
	machine->free_frames.first_free = frame + 1;
}

/* Enqueues a frame for one port; false if it was dropped. */
static bool enqueue(struct machine *machine, u32 frame, struct packet packet, u32 egress, u64 now)
{
	struct soft_switch *core = machine->core;
	const struct xsk_frame *place = &machine->frames[frame].place;
	u32 index = machine->free_entries.first_free;

	core->memory_free = index ? xsk_memory_free(machine->memory) : 0;
	struct entry *entry = &machine->entries[index ? index - 1 : 0];
	u32 next_free = entry->next_free;

	if (index)
		entry->packet = packet;
	if (!switch_admit(core, egress, index ? &entry->packet : &packet, place->spans[0].data, place->count,
			  now))
		return false;
	entry->frame = frame;
	machine->free_entries.first_free = next_free;
	return true;
}

static void handle(struct machine *machine, u32 ingress, const struct xsk_frame *came, u64 now)
{
	struct packet packet = {.bytes = came->bytes, .ingress = (u8)ingress};
	u64 ports =
		switch_receive(machine->core, ingress, came->spans[0], came->bytes, &packet.priority, now);
	u32 index = machine->free_frames.first_free - 1;
	struct frame *frame = &machine->frames[index]; /* there is one for each chunk */

	if (!ports) {
		xsk_memory_release(machine->memory, came);
		return;
	}
	machine->free_frames.first_free = frame->next_free;
	frame->place = *came;
	frame->queues = 0;
	for (; ports; ports &= ports - 1)
		frame->queues += enqueue(machine, index, packet, (u32)__builtin_ctzll(ports), now);
	if (!frame->queues) {
		xsk_memory_release(machine->memory, came);
		give_back(machine, index);
	}
}

u32 receive_frames(struct machine *machine, u32 ingress, u64 now)
{
	struct xsk_frame frames[BATCH];
	u32 count = xsk_receive(machine->ports[ingress].xsk, frames, BATCH);

	for (u32 i = 0; i < count; i++)
		handle(machine, ingress, &frames[i], now);
	xsk_limit_fill(machine->ports[ingress].xsk, switch_ring_chunks(machine->core, ingress));
	xsk_refill(machine->ports[ingress].xsk);
	return count;
}

/* Sending */

/* False while the ring is full. The frame fits: switch_receive() drops the ones that are too long. */
static bool send_copy(struct port *port, const struct xsk_frame *place)
{
	u8 *room = xsk_reserve(port->xsk), *at = room;

	if (!room)
		return false;
	for (u32 i = 0; i < place->count; at += place->spans[i++].bytes)
		memcpy(at, place->spans[i].data, place->spans[i].bytes);
	xsk_commit(port->xsk, room, place->bytes);
	return true;
}

static void free_entry(struct machine *machine, struct entry *entry)
{
	entry->next_free = machine->free_entries.first_free;
	machine->free_entries.first_free = (u32)(entry - machine->entries) + 1;
}

static void lose_entry(struct machine *machine, struct entry *entry)
{
	struct frame *frame = &machine->frames[entry->frame];

	if (--frame->queues == 0) {
		xsk_memory_release(machine->memory, &frame->place);
		give_back(machine, entry->frame);
	}
	free_entry(machine, entry);
}

static u32 lose_to_storms(struct machine *machine, u32 egress, u64 now)
{
	u32 count = 0;

	for (struct packet *packet; (packet = switch_discard(machine->core, egress, now)); count++)
		lose_entry(machine, (struct entry *)packet);
	return count;
}

/* Drops the frames for a cable that is down: they would pause the cables that they came by. */
static u32 lose(struct machine *machine, u32 egress, u64 now)
{
	struct port *port = &machine->ports[egress];
	u32 count = 0;

	for (struct entry *entry = port->waiting; count < XSK_RING; count++) {
		entry = entry ? entry : (struct entry *)switch_drop(machine->core, egress, now);
		if (!entry)
			break;
		lose_entry(machine, entry);
		entry = port->waiting = NULL;
	}
	return count;
}

/* False while the ring is full. The last of a flooded frame's queues sends the frame itself. */
static bool send_entry(struct machine *machine, struct port *port, struct entry *entry)
{
	struct frame *frame = &machine->frames[entry->frame];
	bool is_last = frame->queues == 1;

	if (!(is_last ? xsk_forward(port->xsk, &frame->place) : send_copy(port, &frame->place)))
		return false;
	frame->queues--;
	if (is_last)
		give_back(machine, entry->frame);
	free_entry(machine, entry);
	return true;
}

/* PFC frames go before all others. */
static u32 send_pauses(struct machine *machine, u32 egress, u64 now)
{
	struct port *port = &machine->ports[egress];
	struct pfc frame;
	u32 count = 0;

	while (pfc_refresh_ns(&machine->core->port[egress].pfc) <= now) {
		u8 *room = xsk_reserve(port->xsk);

		if (!room || !switch_pause(machine->core, egress, &frame, now))
			break;
		struct room space = {room, xsk_room(port->xsk)};

		pfc_emit(&space, &frame);
		xsk_commit(port->xsk, room, ETHERNET_BYTES + PFC_BYTES);
		count++;
	}
	return count;
}

static bool is_lost(const struct port *port, int left)
{
	return left < 0 || (left > 0 && xsk_is_down(port->xsk));
}

/* Tries a cable that was down with the frames that are still in its ring. */
static bool is_down(struct port *port, u64 now)
{
	if (port->down_ns && port->down_ns <= now)
		port->down_ns = is_lost(port, xsk_kick(port->xsk)) ? now + DOWN_NS : 0;
	return port->down_ns != 0;
}

u32 send_frames(struct machine *machine, u32 egress, u64 now)
{
	struct port *port = &machine->ports[egress];

	if (is_down(port, now))
		return lose(machine, egress, now);
	u32 count = lose_to_storms(machine, egress, now) + send_pauses(machine, egress, now);

	for (u32 taken = 0; taken < BATCH; taken++) {
		struct entry *entry = port->waiting;

		entry = entry ? entry : (struct entry *)switch_take(machine->core, egress, now);
		port->waiting = entry;
		if (!entry || !send_entry(machine, port, entry))
			break;
		port->waiting = NULL;
		count++;
	}
	if (count || port->is_behind) {
		int left = xsk_kick(port->xsk);

		port->is_behind = left != 0;
		port->down_ns = is_lost(port, left) ? now + DOWN_NS : 0;
	}
	return count;
}

u64 port_next_ns(const struct machine *machine, u32 port, u64 now)
{
	const struct port *found = &machine->ports[port];

	if (found->down_ns > now)
		return found->down_ns;
	return found->is_behind || found->waiting ? now + RETRY_NS : switch_next_ns(machine->core, port, now);
}
