/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priority flow control (IEEE 802.1Qbb) of one port: which priorities the peer has paused here, and which
 * ones this port has paused at the peer. Pure state without I/O: frames are values, time is an argument, in
 * nanoseconds of any monotonic clock.
 *
 * A sender calls pfc_is_paused() before each frame, and pfc_receive() for each PFC frame that arrives.
 * A receiver calls pfc_watch() whenever the fill level of a priority's buffer changes (or pfc_stop() and
 * pfc_go()), then sends what pfc_take() returns until it returns nothing, and again at pfc_refresh_ns().
 * Both call pfc_settle() from time to time, so that the counters include a pause that still lasts.
 */
#pragma once

#include <stdbool.h>

#include "wire/pfc.h"

#define PFC_QUANTUM_BITS  512
#define PFC_LONGEST       0xffff         /* quanta of an XOFF */
#define PFC_UNLIMITED_BPS 10000000000ULL /* assumed rate of a port without a limit */
#define PFC_NEVER         (~0ULL)
#define PFC_NS_PER_US     1000
#define PFC_NS_PER_S      1000000000ULL

/* Of one port and priority, 64 bits each. rx: pauses that the peer requested; tx: pauses requested of it. */
/* clang-format off */
#define PFC_COUNTERS(COUNTER)                                                                \
	COUNTER(rx_pause_frames,      "PFC frames received for the priority, XON included")   \
	COUNTER(rx_pause_transitions, "transitions to paused at this port")                   \
	COUNTER(rx_pause_us,          "microseconds paused at this port")                     \
	COUNTER(tx_pause_frames,      "PFC frames sent for the priority, XON included")       \
	COUNTER(tx_pause_transitions, "transitions to paused at the peer")                    \
	COUNTER(tx_pause_us,          "microseconds paused at the peer")
/* clang-format on */

#define PFC_FIELD(name, meaning) u64 name;

struct pfc_counters {
	PFC_COUNTERS(PFC_FIELD)
};

struct pfc_priority {
	u64 paused_until_ns; /* by the peer */
	u64 paused_counted_ns;
	u64 refresh_ns; /* when XOFF has to be repeated */
	u64 stopped_counted_ns;
	bool stopped; /* at the peer, by this port */
	bool is_news; /* `stopped` has changed since the last frame */
};

struct pfc_port {
	u64 rate_bps;
	struct pfc_counters *counters; /* one for each priority, in memory that others may read */
	struct pfc_priority priority[PRIORITIES];
};

/* `rate_bps` is the rate of the cable, 0 for no limit. */
static inline void pfc_init(struct pfc_port *port, u64 rate_bps, struct pfc_counters *counters)
{
	*port = (struct pfc_port){.rate_bps = rate_bps ? rate_bps : PFC_UNLIMITED_BPS, .counters = counters};
}

static inline u64 pfc_quanta_ns(const struct pfc_port *port, u16 quanta)
{
	return quanta * PFC_QUANTUM_BITS * PFC_NS_PER_S / port->rate_bps;
}

/* Adds the whole microseconds of [*counted_ns, end_ns]; the remainder is counted next time. */
static inline void pfc_add_us(u64 *us, u64 *counted_ns, u64 end_ns)
{
	if (end_ns > *counted_ns) {
		u64 whole = (end_ns - *counted_ns) / PFC_NS_PER_US;

		*us += whole;
		*counted_ns += whole * PFC_NS_PER_US;
	}
}

static inline void pfc_count(struct pfc_port *port, unsigned priority, u64 now)
{
	struct pfc_priority *state = &port->priority[priority];
	struct pfc_counters *count = &port->counters[priority];
	u64 end = state->paused_until_ns < now ? state->paused_until_ns : now;

	pfc_add_us(&count->rx_pause_us, &state->paused_counted_ns, end);
	if (state->stopped)
		pfc_add_us(&count->tx_pause_us, &state->stopped_counted_ns, now);
}

/* Updates the time counters. */
static inline void pfc_settle(struct pfc_port *port, u64 now)
{
	for (unsigned priority = 0; priority < PRIORITIES; priority++)
		pfc_count(port, priority, now);
}

/* Whether no frame of this priority may begin now. A frame already begun is completed. */
static inline bool pfc_is_paused(const struct pfc_port *port, unsigned priority, u64 now)
{
	return port->priority[priority].paused_until_ns > now;
}

/* Handles a received PFC frame: each enabled priority pauses for its quanta from now; 0 ends the pause. */
static inline void pfc_receive(struct pfc_port *port, const struct pfc *frame, u64 now)
{
	for (unsigned priority = 0; priority < PRIORITIES; priority++) {
		struct pfc_priority *state = &port->priority[priority];

		if (!(frame->enabled & (1u << priority)))
			continue;
		pfc_count(port, priority, now);
		port->counters[priority].rx_pause_frames++;
		if (!pfc_is_paused(port, priority, now)) {
			state->paused_counted_ns = now;
			port->counters[priority].rx_pause_transitions += frame->quanta[priority] > 0;
		}
		state->paused_until_ns = now + pfc_quanta_ns(port, frame->quanta[priority]);
	}
}

/* Pauses a priority at the peer until pfc_go(). */
static inline void pfc_stop(struct pfc_port *port, unsigned priority, u64 now)
{
	struct pfc_priority *state = &port->priority[priority];

	if (state->stopped)
		return;
	state->stopped = true;
	state->is_news = !state->is_news; /* stop and go without a frame between them cancel out */
	state->stopped_counted_ns = now;
	port->counters[priority].tx_pause_transitions++;
}

static inline void pfc_go(struct pfc_port *port, unsigned priority, u64 now)
{
	struct pfc_priority *state = &port->priority[priority];

	if (!state->stopped)
		return;
	pfc_count(port, priority, now);
	state->stopped = false;
	state->is_news = !state->is_news;
}

/* Pauses a priority at the peer while its buffer holds more than `xoff`, until it holds at most `xon`. */
static inline void pfc_watch(struct pfc_port *port, unsigned priority, u64 held, u64 xoff, u64 xon, u64 now)
{
	if (held > xoff)
		pfc_stop(port, priority, now);
	else if (held <= xon)
		pfc_go(port, priority, now);
}

static inline bool pfc_is_due(const struct pfc_priority *state, u64 now)
{
	return state->is_news || (state->stopped && state->refresh_ns <= now);
}

/*
 * Fills in the PFC frame that has to be sent now, except for its source; false if there is none. XOFF is
 * repeated after half of its quanta, so that the peer stays paused if one frame is lost or late.
 */
static inline bool pfc_take(struct pfc_port *port, struct pfc *frame, u64 now)
{
	frame->enabled = 0;
	memset(frame->quanta, 0, sizeof(frame->quanta));
	for (unsigned priority = 0; priority < PRIORITIES; priority++) {
		struct pfc_priority *state = &port->priority[priority];

		if (!pfc_is_due(state, now))
			continue;
		frame->enabled |= (u8)(1u << priority);
		frame->quanta[priority] = state->stopped ? PFC_LONGEST : 0;
		state->is_news = false;
		state->refresh_ns = now + pfc_quanta_ns(port, PFC_LONGEST) / 2;
		port->counters[priority].tx_pause_frames++;
	}
	return frame->enabled != 0;
}

/* When pfc_take() will next return a frame; PFC_NEVER if not before the next change. */
static inline u64 pfc_refresh_ns(const struct pfc_port *port)
{
	u64 next = PFC_NEVER;

	for (unsigned priority = 0; priority < PRIORITIES; priority++) {
		const struct pfc_priority *state = &port->priority[priority];

		if (state->is_news)
			return 0;
		if (state->stopped && state->refresh_ns < next)
			next = state->refresh_ns;
	}
	return next;
}
