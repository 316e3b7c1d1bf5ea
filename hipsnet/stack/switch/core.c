// SPDX-License-Identifier: Apache-2.0
/* The buffer and the counters; see switch/core.h. Received frames are handled in switch/receive.c. */
#include "switch/core.h"

#include <stddef.h>

void switch_init(struct soft_switch *self, struct switch_counters *counters)
{
	struct port_counters *ports = (struct port_counters *)(counters + 1);

	self->count = counters;
	counters->ports = self->ports;
	counters->shared_size = self->buffer.shared_size;
	counters->memory_min_free = self->memory_free;
	for (u32 port = 0; port < self->ports; port++)
		self->port[port].count = &ports[port];
}

void switch_init_port(struct soft_switch *self, u32 port, const u8 *mac, u64 rate_bps, u64 burst_ns,
		      const u32 *weights, u32 longest_frame)
{
	struct switch_port *made = &self->port[port];

	memcpy(made->mac, mac, MAC_BYTES);
	made->count->rate_bps = rate_bps;
	egress_init(&made->egress, rate_bps, burst_ns, weights, longest_frame);
	pfc_init(&made->pfc, rate_bps, made->count->pause);
}

/* Enqueueing */

static void consider_marking(struct soft_switch *self, u32 egress, u8 priority, u8 *head, u32 bytes)
{
	u64 length = self->buffer.queues[egress][priority].bytes;

	if (self->marks & (1u << priority) && ethernet_is_ipv4(head, bytes) &&
	    marking_applies(&self->marking, length))
		self->port[egress].count->priority[priority].ecn_marks += marking_mark(head + ETHERNET_BYTES);
}

static enum buffer_verdict charge(struct soft_switch *self, struct buffer_place place, u32 bytes, u32 chunks)
{
	u64 free = self->memory_free, owed = self->memory_owed;

	self->buffer.memory = free > owed ? (free - owed) * self->chunk_bytes : 0;
	if (free < self->count->memory_min_free)
		self->count->memory_min_free = free;
	return buffer_charge(&self->buffer, place, bytes, chunks <= switch_ring_chunks(self, place.ingress));
}

static void count_loss(struct priority_counters *count, enum buffer_verdict verdict)
{
	count->drop_tail += verdict == BUFFER_TAIL;
	count->drop_full += verdict == BUFFER_FULL;
	count->drop_headroom += verdict == BUFFER_OVERRUN;
}

/* Priorities whose frames for this port are dropped. */
static u8 dropped_priorities(const struct soft_switch *self, u32 egress)
{
	return self->watchdog.action == WATCHDOG_DROP ? self->port[egress].storming : 0;
}

bool switch_admit(struct soft_switch *self, u32 egress, struct packet *packet, u8 *head, u32 chunks, u64 now)
{
	struct buffer_place place = {packet->ingress, (u8)egress, packet->priority};
	struct switch_port *port = &self->port[place.ingress];
	struct priority_counters *count = &port->count->priority[place.priority];

	if (dropped_priorities(self, egress) & (1u << place.priority)) {
		self->port[egress].count->priority[place.priority].drop_storm++;
		return false;
	}
	if (self->memory_free < chunks) {
		count->drop_memory++;
		return false;
	}
	enum buffer_verdict verdict = charge(self, place, packet->bytes, chunks);

	if (self->buffer.groups[place.ingress][place.priority].stopped) {
		pfc_stop(&port->pfc, place.priority, now);
		self->stopped |= port_bit(place.ingress);
	}
	if (verdict != BUFFER_TAKEN && verdict != BUFFER_LATE) {
		count_loss(count, verdict);
		return false;
	}
	packet->late_chunks = verdict == BUFFER_LATE ? (u8)chunks : 0;
	port->late += packet->late_chunks;
	count->late += verdict == BUFFER_LATE;
	consider_marking(self, egress, place.priority, head, packet->bytes);
	egress_put(&self->port[egress].egress, packet);
	return true;
}

/* Dequeueing */

/* The end of a queue's pause; 0 if the watchdog overrides it. */
static u64 paused_until(const struct soft_switch *self, const struct switch_port *port, u32 priority)
{
	bool is_overruled = self->watchdog.action != WATCHDOG_ALERT && port->storming & (1u << priority);

	return is_overruled ? 0 : port->pfc.priority[priority].paused_until_ns;
}

static u8 open_priorities(const struct soft_switch *self, const struct switch_port *port, u64 now)
{
	u8 open = 0;

	for (u32 priority = 0; priority < PRIORITIES; priority++)
		open |= (u8)((paused_until(self, port, priority) <= now) << priority);
	return open;
}

static void let_go(struct soft_switch *self, u32 ingress, u32 priority, u64 now)
{
	if (buffer_may_go(&self->buffer, ingress, priority))
		pfc_go(&self->port[ingress].pfc, priority, now);
}

static void leave(struct soft_switch *self, u32 egress, const struct packet *packet, u64 now)
{
	struct buffer_place place = {packet->ingress, (u8)egress, packet->priority};

	buffer_discharge(&self->buffer, place, packet->bytes);
	self->port[place.ingress].late -= packet->late_chunks;
	let_go(self, place.ingress, place.priority, now);
}

struct packet *switch_take(struct soft_switch *self, u32 egress, u64 now)
{
	struct switch_port *port = &self->port[egress];

	if (!port->egress.waiting)
		return NULL;
	struct packet *packet = egress_take(&port->egress, open_priorities(self, port, now), now);

	if (packet) {
		leave(self, egress, packet, now);
		port->count->priority[packet->priority].tx_frames++;
		port->count->priority[packet->priority].tx_bytes += packet->bytes;
	}
	return packet;
}

struct packet *switch_drop(struct soft_switch *self, u32 egress, u64 now)
{
	struct packet *packet = egress_drop(&self->port[egress].egress, 0xff);

	if (packet) {
		leave(self, egress, packet, now);
		self->port[egress].count->priority[packet->priority].drop_down++;
	}
	return packet;
}

struct packet *switch_discard(struct soft_switch *self, u32 egress, u64 now)
{
	struct packet *packet = egress_drop(&self->port[egress].egress, dropped_priorities(self, egress));

	if (packet) {
		leave(self, egress, packet, now);
		self->port[egress].count->priority[packet->priority].drop_storm++;
	}
	return packet;
}

bool switch_pause(struct soft_switch *self, u32 port, struct pfc *frame, u64 now)
{
	struct switch_port *found = &self->port[port];

	memcpy(frame->from, found->mac, MAC_BYTES);
	return pfc_take(&found->pfc, frame, now);
}

u64 switch_next_ns(const struct soft_switch *self, u32 port, u64 now)
{
	const struct switch_port *found = &self->port[port];
	u64 next = pfc_refresh_ns(&found->pfc), paused = PFC_NEVER;

	for (u32 waiting = found->egress.waiting; waiting; waiting &= waiting - 1) {
		u64 until = paused_until(self, found, (u32)__builtin_ctz(waiting));

		paused = until < paused ? until : paused;
	}
	if (paused == PFC_NEVER)
		return next;
	u64 send = paused > now ? paused : egress_free_ns(&found->egress);

	return send < next ? send : next;
}

/* The counters */

static void settle_port(struct soft_switch *self, u32 port)
{
	for (u32 priority = 0; priority < PRIORITIES; priority++) {
		struct priority_counters *count = &self->port[port].count->priority[priority];
		const struct priority_group *group = &self->buffer.groups[port][priority];
		const struct buffer_queue *queue = &self->buffer.queues[port][priority];

		count->ingress_bytes = buffer_held(group);
		count->ingress_max_bytes = group->most;
		count->headroom_bytes = group->headroom;
		count->headroom_max_bytes = group->most_headroom;
		count->egress_bytes = queue->bytes;
		count->egress_max_bytes = queue->most;
	}
}

void switch_settle(struct soft_switch *self, u64 now)
{
	for (u64 stopped = self->stopped; stopped; stopped &= stopped - 1) {
		u32 port = (u32)__builtin_ctzll(stopped);
		bool any = false;

		for (u32 priority = 0; priority < PRIORITIES; priority++) {
			let_go(self, port, priority, now);
			any |= self->buffer.groups[port][priority].stopped;
		}
		if (!any)
			self->stopped &= ~port_bit(port);
	}
	for (u32 port = 0; port < self->ports; port++) {
		pfc_settle(&self->port[port].pfc, now);
		settle_port(self, port);
	}
	self->count->shared_bytes = self->buffer.shared;
	self->count->shared_max_bytes = self->buffer.most_shared;
	self->count->headroom_bytes = self->buffer.headroom;
	self->count->headroom_max_bytes = self->buffer.most_headroom;
	self->count->memory_free = self->memory_free;
}
