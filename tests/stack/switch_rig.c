// SPDX-License-Identifier: Apache-2.0
/* A soft switch for tests: its core, with frames that are only numbers, and a clock that the test holds. */
#include <stdlib.h>

#include "switch/storm.h"

enum { RIG_PACKETS = 1 << 16 };

struct rig {
	struct soft_switch core;
	struct packet packets[RIG_PACKETS];
	u32 next;
	struct switch_events events;
	struct {
		struct switch_counters total;
		struct port_counters ports[SWITCH_PORTS];
	} counters;
};

struct rig *rig_new(u32 ports, u64 shared, u64 memory, u64 owed, u64 seed)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	rig->core.ports = ports;
	rig->core.buffer.shared_size = shared;
	rig->core.memory_free = memory;
	rig->core.memory_owed = owed;
	rig->core.chunk_bytes = 1024;
	rig->core.longest_frame = 9014;
	rig->core.marking.random = seed;
	for (u32 dscp = 0; dscp < DSCP_COUNT; dscp++)
		rig->core.priority_of[dscp] = (u8)(dscp / 8);
	return rig;
}

void rig_free(struct rig *rig)
{
	free(rig->core.router.routes);
	free(rig);
}

void rig_class(struct rig *rig, u32 priority, bool lossless, u64 reserved, u64 headroom, u64 xoff, u64 xon,
	       double alpha, u64 hysteresis)
{
	rig->core.buffer.classes[priority] =
		(struct buffer_class){lossless, reserved, headroom, xoff, xon, alpha, hysteresis};
}

void rig_marking(struct rig *rig, u32 priority, u64 kmin, u64 kmax, double pmax)
{
	rig->core.marks = (u8)(1u << priority);
	rig->core.marking.kmin = kmin;
	rig->core.marking.kmax = kmax;
	rig->core.marking.pmax = pmax;
}

void rig_start(struct rig *rig, u64 rate_bps, u64 burst_ns, const u32 *weights, u32 longest)
{
	switch_init(&rig->core, &rig->counters.total);
	for (u32 port = 0; port < rig->core.ports; port++) {
		const u8 mac[MAC_BYTES] = {2, 0x48, 0, 0, 0xff, (u8)port};

		switch_init_port(&rig->core, port, mac, rate_bps, burst_ns, weights, longest);
	}
}

void rig_watchdog(struct rig *rig, u64 detect_ns, u64 restore_ns, u32 action)
{
	rig->core.watchdog = (struct watchdog){detect_ns, restore_ns, (enum watchdog_action)action};
	rig->core.events = &rig->events;
}

u64 rig_watch(struct rig *rig, u64 now)
{
	return switch_watch(&rig->core, now);
}

/* As rig_take(). */
u64 rig_discard(struct rig *rig, u32 egress, u64 now)
{
	struct packet *packet = switch_discard(&rig->core, egress, now);

	return packet ? (u64)packet->bytes << 16 | (u64)packet->ingress << 8 | packet->priority : 0;
}

const void *rig_events(struct rig *rig)
{
	return rig->events.ring;
}

bool rig_fix(struct rig *rig, const u8 *mac, u32 port)
{
	return bridge_fix(&rig->core.bridge, mac, (u8)port);
}

void rig_routes(struct rig *rig, u32 count)
{
	rig->core.routes = true;
	rig->core.router.routes = calloc(count, sizeof(*rig->core.router.routes));
	rig->core.router.seed = 7;
}

void rig_route(struct rig *rig, u32 prefix, u32 mask, const u32 *ports, u32 count)
{
	struct router_route *route = &rig->core.router.routes[rig->core.router.count++];

	*route = (struct router_route){.prefix = prefix, .mask = mask, .count = count};
	for (u32 i = 0; i < count; i++)
		route->hops[i] = (struct router_hop){(u8)ports[i], {2, 0x48, 0, 0, 0xee, (u8)ports[i]}};
}

u64 rig_receive(struct rig *rig, u32 ingress, u8 *frame, u32 bytes, u8 *priority, u64 now)
{
	return switch_receive(&rig->core, ingress, (struct span){frame, bytes}, bytes, priority, now);
}

/* Takes in a frame of these bytes; `frame`, where it matters, is what is in it. */
bool rig_admit(struct rig *rig, u32 ingress, u32 egress, u32 priority, u32 bytes, u8 *frame, u64 now)
{
	static u8 nothing[64];
	struct packet *packet = &rig->packets[rig->next++ % RIG_PACKETS];

	*packet = (struct packet){.bytes = bytes, .ingress = (u8)ingress, .priority = (u8)priority};
	return switch_admit(&rig->core, egress, packet, frame ? frame : nothing, 1, now);
}

/* What leaves by a port now, as bytes << 16 | ingress << 8 | priority; 0: nothing. */
u64 rig_take(struct rig *rig, u32 egress, u64 now)
{
	struct packet *packet = switch_take(&rig->core, egress, now);

	return packet ? (u64)packet->bytes << 16 | (u64)packet->ingress << 8 | packet->priority : 0;
}

/* What the port has to send, as enabled << 16 | the quanta of a priority; 0: nothing. */
u32 rig_pause(struct rig *rig, u32 port, u32 priority, u64 now)
{
	struct pfc frame;

	return switch_pause(&rig->core, port, &frame, now) ? (u32)frame.enabled << 16 | frame.quanta[priority]
							   : 0;
}

void rig_settle(struct rig *rig, u64 now)
{
	switch_settle(&rig->core, now);
}

u64 rig_next(struct rig *rig, u32 port, u64 now)
{
	return switch_next_ns(&rig->core, port, now);
}

/* What every port's ring may hold, in chunks; a frame takes one. */
void rig_ahead(struct rig *rig, u32 chunks)
{
	for (u32 port = 0; port < rig->core.ports; port++)
		rig->core.port[port].ahead = chunks;
}

u32 rig_ring(struct rig *rig, u32 port)
{
	return switch_ring_chunks(&rig->core, port);
}

void rig_memory(struct rig *rig, u64 chunks)
{
	rig->core.memory_free = chunks;
}

const struct priority_group *rig_group(struct rig *rig, u32 port, u32 priority)
{
	return &rig->core.buffer.groups[port][priority];
}

u64 rig_queue(struct rig *rig, u32 port, u32 priority)
{
	return rig->core.buffer.queues[port][priority].bytes;
}

u64 rig_shared(struct rig *rig)
{
	return rig->core.buffer.shared;
}

u64 rig_headroom(struct rig *rig)
{
	return rig->core.buffer.headroom;
}

const void *rig_counters(struct rig *rig)
{
	return &rig->counters;
}

/* One port's pauses by themselves. */

struct pauses {
	struct pfc_port port;
	struct pfc_counters counters[PRIORITIES];
};

struct pauses *pauses_new(u64 rate_bps)
{
	struct pauses *pauses = calloc(1, sizeof(*pauses));

	pfc_init(&pauses->port, rate_bps, pauses->counters);
	return pauses;
}

void pauses_free(struct pauses *pauses)
{
	free(pauses);
}

void pauses_receive(struct pauses *pauses, u32 enabled, const u16 *quanta, u64 now)
{
	struct pfc frame = {.enabled = (u8)enabled};

	memcpy(frame.quanta, quanta, sizeof(frame.quanta));
	pfc_receive(&pauses->port, &frame, now);
}

bool pauses_is_paused(const struct pauses *pauses, u32 priority, u64 now)
{
	return pfc_is_paused(&pauses->port, priority, now);
}

void pauses_watch(struct pauses *pauses, u32 priority, u64 held, u64 xoff, u64 xon, u64 now)
{
	pfc_watch(&pauses->port, priority, held, xoff, xon, now);
}

/* As rig_pause(). */
u32 pauses_take(struct pauses *pauses, u32 priority, u64 now)
{
	struct pfc frame;

	return pfc_take(&pauses->port, &frame, now) ? (u32)frame.enabled << 16 | frame.quanta[priority] : 0;
}

u64 pauses_refresh(const struct pauses *pauses)
{
	return pfc_refresh_ns(&pauses->port);
}

const struct pfc_counters *pauses_counters(struct pauses *pauses, u64 now)
{
	pfc_settle(&pauses->port, now);
	return pauses->counters;
}

u64 rig_counters_bytes(const struct rig *rig)
{
	return sizeof(struct switch_counters) + rig->core.ports * sizeof(struct port_counters);
}

/* The head of a file of so many switches; its size in bytes. */
u64 rig_file_head(u8 *at, u64 size, u64 switches)
{
	const struct switch_file head = {SWITCH_FILE_MARK, switch_layout(), .switches = switches};

	if (size >= sizeof(head))
		memcpy(at, &head, sizeof(head));
	return sizeof(head);
}
