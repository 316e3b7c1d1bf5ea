/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The way out of a port for a frame that is forwarded, and the PFC watchdog over such frames, modelled on
 * SONiC's pfcwd: a port whose other end has paused a priority without a gap for `detect_ns`, while frames
 * wait to leave there, is in a *storm* until no pause has been in force for `restore_ns`.
 *
 * Detection is driven by traffic: each frame that is to leave by a paused port checks the clock, so no
 * process has to be alive for it. Frames that the endpoint holds already do not come by here again; its own
 * watchdog (hipsnet/stack/ports/storm.c) checks them and records what it finds in the same structure.
 *
 * Frames for one port arrive on several CPUs, and the endpoint runs on another: the one that changes
 * `storm_ns` from 0 has detected the storm and records it (STORM_RECORDING is set meanwhile). Without
 * -mcpu=v3, which bcc cannot pass on, the compiler generates atomics of 64 bits only.
 */
#pragma once

#include "tables.h"

#define PS_PER_NS 1000

enum way {
	WAY_OPEN,
	WAY_HELD, /* frames wait for this port already, or a pause is in force */
	WAY_LOST,
};

/* A PFC frame arrived: record the start and the end of the pause of each priority that it names. */
static __always_inline void honour(struct pauses *port, __be16 class_enable, const __be16 *quanta)
{
	u64 quantum_ps = port->quantum_ps ? port->quantum_ps : port->storm_quantum_ps;
	u64 now = bpf_ktime_get_ns();
	u16 enabled = bpf_ntohs(class_enable);

#pragma unroll
	for (int priority = 0; priority < PAUSE_PRIORITIES; priority++) {
		if (!(enabled & (1 << priority)))
			continue;
		if (port->until_ns[priority] < now)
			port->since_ns[priority] = now;
		port->until_ns[priority] = now + bpf_ntohs(quanta[priority]) * quantum_ps / PS_PER_NS;
	}
}

/* False if another CPU or the endpoint has detected the storm first: this frame came before it. */
static __always_inline bool begin_storm(struct pauses *port, u32 priority, u64 now)
{
	now &= ~STORM_RECORDING;
	if (__sync_val_compare_and_swap(&port->storm_ns[priority], 0, now | STORM_RECORDING))
		return false;
	port->storm_since_ns[priority] = port->since_ns[priority];
	port->storm_waiting[priority] = port->buffered[priority] + 1;
	port->storm_victims[priority] = 0;
	port->storm_lost[priority] = 0;
	port->storm_over_ns[priority] = 0;
	port->storm_seen_ns[priority] = now;
	port->storms[priority]++;
	__sync_val_compare_and_swap(&port->storm_ns[priority], now | STORM_RECORDING, now);
	return true;
}

/* Whether the port is in a storm; the storm may begin or end with this frame. */
static __always_inline bool is_storm(struct pauses *port, u32 priority, u64 now)
{
	u64 until = port->until_ns[priority], storm = port->storm_ns[priority];
	s64 stuck_ns = now - port->since_ns[priority];

	/* Signed: another CPU may have read the clock after this one did. */
	if (storm & STORM_RECORDING && (s64)(now - storm) < STORM_RECORDING_NS)
		return false;
	if (storm) {
		if (now < until + port->restore_ns)
			return true;
		port->storm_over_ns[priority] = now;
		__sync_val_compare_and_swap(&port->storm_ns[priority], storm, 0);
		return false;
	}
	if (!port->storm_action || until <= now || stuck_ns < (s64)port->detect_ns)
		return false;
	return begin_storm(port, priority, now);
}

static __always_inline void note_victim(struct pauses *port, u32 priority, u32 from)
{
	u64 victim = from < STORM_VICTIMS ? 1ULL << from : 0;

	if (victim & ~port->storm_victims[priority])
		__sync_fetch_and_or(&port->storm_victims[priority], victim);
}

/*
 * Whether an endpoint empties its buffer at present. A process that computes does not, and neither does one
 * that is stopped: nothing is held for them. (A dead process has no socket to hand frames to.)
 */
static __always_inline bool is_polling(const struct pauses *port, u64 now)
{
	return port->quantum_ps && (s64)(now - port->polled_ns) < (s64)POLL_RECENT_NS;
}

/* The fate of a frame that arrived at the port `from` and is to leave by this one in that priority. */
static __always_inline enum way way_out(struct pauses *port, u32 priority, u32 from)
{
	/* Most ports were never paused, and need not read the clock. */
	if (!port->until_ns[priority] && !port->buffered[priority])
		return WAY_OPEN;
	u64 now = bpf_ktime_get_ns();

	if (is_storm(port, priority, now)) {
		note_victim(port, priority, from);
		if (port->storm_action == STORM_DROP) {
			__sync_fetch_and_add(&port->storm_lost[priority], 1);
			return WAY_LOST;
		}
		if (port->storm_action == STORM_FORWARD)
			return WAY_OPEN;
	}
	/* With no buffer to wait in, a frame leaves despite the pause: the receiver may lose it, a drop here
	 * would. */
	if (!is_polling(port, now))
		return WAY_OPEN;
	return port->buffered[priority] || port->until_ns[priority] > now ? WAY_HELD : WAY_OPEN;
}
