// SPDX-License-Identifier: Apache-2.0
/* See switch/storm.h. */
#include "switch/storm.h"

#include <stddef.h>

/* The ingress ports of the frames in a queue, as bits; adds the number of frames. */
static u64 victims_of(const struct queue *queue, u64 *frames)
{
	u64 ports = 0;

	for (const struct packet *packet = queue->first; packet; packet = packet->next, ++*frames)
		ports |= port_bit(packet->ingress);
	return ports;
}

static void record(struct switch_events *events, struct switch_event event)
{
	if (!events)
		return;
	struct switch_event *place = &events->ring[events->count % SWITCH_EVENTS];

	/* Number 0 tells concurrent readers that the entry is incomplete. */
	__atomic_store_n(&place->number, 0, __ATOMIC_SEQ_CST);
	*place = event;
	__atomic_store_n(&place->number, events->count + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&events->count, events->count + 1, __ATOMIC_RELEASE);
}

static void change_state(struct soft_switch *self, u32 port, u32 priority, enum watchdog_news news, u64 now)
{
	struct switch_port *found = &self->port[port];
	struct watchdog_queue *queue = &found->watched[priority];
	struct priority_counters *count = &found->count->priority[priority];
	struct switch_event event = {
		.time_ns = now,
		.began_ns = queue->began_ns,
		.kind = news,
		.action = self->watchdog.action,
		.switch_index = self->number,
		.port = port,
		.priority = priority,
	};

	found->storming ^= (u8)(1u << priority);
	count->storming = queue->is_storming;
	if (news == WATCHDOG_STORM) {
		count->storms++;
		event.victims = victims_of(&found->egress.queues[priority], &event.frames);
		found->storm[priority] = (struct storm){now, count->drop_storm, event.victims};
	} else {
		event.began_ns = found->storm[priority].began_ns;
		event.victims = found->storm[priority].victims;
		event.frames = count->drop_storm - found->storm[priority].dropped_before;
	}
	record(self->events, event);
}

static void look_at_port(struct soft_switch *self, u32 port, u64 now)
{
	struct switch_port *found = &self->port[port];

	pfc_settle(&found->pfc, now);
	for (u32 priority = 0; priority < PRIORITIES; priority++) {
		if (!self->buffer.classes[priority].lossless)
			continue;
		struct watchdog_seen seen = {
			.held = self->buffer.queues[port][priority].bytes,
			.sent = found->count->priority[priority].tx_frames,
			.paused_us = found->count->pause[priority].rx_pause_us,
		};
		enum watchdog_news news =
			watchdog_look(&self->watchdog, &found->watched[priority], &seen, now);

		if (news != WATCHDOG_NOTHING)
			change_state(self, port, priority, news, now);
	}
}

u64 switch_watch(struct soft_switch *self, u64 now)
{
	if (self->watchdog.action == WATCHDOG_OFF)
		return PFC_NEVER;
	if (self->watch_ns <= now) {
		u64 poll = watchdog_poll_ns(&self->watchdog);

		for (u32 port = 0; port < self->ports; port++)
			look_at_port(self, port, now);
		/* All switches of the process poll at the same times, so that it wakes up once for all. */
		self->watch_ns = (now / poll + 1) * poll;
	}
	return self->watch_ns;
}
