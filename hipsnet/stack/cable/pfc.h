/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Priority flow control (IEEE 802.1Qbb) of one port: what the other end of the cable has stopped here, and
 * what is stopped there. Pure state: frames come and go as their values, time is an argument, in nanoseconds
 * of any clock that never goes back.
 *
 * Who sends:     pfc_is_paused() before each frame; pfc_receive() for each PFC frame that comes in.
 * Who receives:  pfc_watch() whenever a priority's buffer has grown or shrunk (or pfc_stop() and pfc_go());
 *                pfc_take() until it has no more, and each of them sent; again at pfc_refresh_ns().
 * Who counts:    pfc_settle() now and then, so that a pause that lasts is seen to grow.
 */
#pragma once

#include <stdbool.h>

#include "wire/pfc.h"

#define PFC_QUANTUM_BITS  512
#define PFC_LONGEST       0xffff         /* quanta that an XOFF asks for */
#define PFC_UNLIMITED_BPS 10000000000ULL /* what a port without a rate is taken for */
#define PFC_NEVER         (~0ULL)
#define PFC_NS_PER_US     1000
#define PFC_NS_PER_S      1000000000ULL

/* Of one port and priority, all 64 bits wide. rx is what the other end asked of us, tx what we asked of it.
 */
/* clang-format off */
#define PFC_COUNTERS(COUNTER)                                                                \
	COUNTER(rx_pause_frames,      "PFC frames that came and named the priority, XON too") \
	COUNTER(rx_pause_transitions, "times that it went from open to paused here")          \
	COUNTER(rx_pause_us,          "microseconds that it was paused here")                 \
	COUNTER(tx_pause_frames,      "PFC frames sent that name the priority, XON too")      \
	COUNTER(tx_pause_transitions, "times that it was stopped at the other end")           \
	COUNTER(tx_pause_us,          "microseconds that it was stopped at the other end")
/* clang-format on */

#define PFC_FIELD(name, meaning) u64 name;

struct pfc_counters {
	PFC_COUNTERS(PFC_FIELD)
};

struct pfc_priority {
	u64 paused_until_ns; /* by the other end */
	u64 paused_counted_ns;
	u64 refresh_ns; /* when the other end has to hear of it again */
	u64 stopped_counted_ns;
	bool stopped; /* at the other end */
	bool is_news; /* the other end does not know of it yet */
};

struct pfc_port {
	u64 rate_bps;
	struct pfc_counters *counters; /* one for each priority, where others can read them */
	struct pfc_priority priority[PRIORITIES];
};

/* `rate_bps` is the cable's, 0 for one without a limit. */
static inline void pfc_init(struct pfc_port *port, u64 rate_bps, struct pfc_counters *counters)
{
	*port = (struct pfc_port){.rate_bps = rate_bps ? rate_bps : PFC_UNLIMITED_BPS, .counters = counters};
}

static inline u64 pfc_quanta_ns(const struct pfc_port *port, u16 quanta)
{
	return quanta * PFC_QUANTUM_BITS * PFC_NS_PER_S / port->rate_bps;
}

/* Adds whole microseconds of [*counted_ns, end_ns] and leaves the rest for the next time. */
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

/* Brings the counters of time up to now. */
static inline void pfc_settle(struct pfc_port *port, u64 now)
{
	for (unsigned priority = 0; priority < PRIORITIES; priority++)
		pfc_count(port, priority, now);
}

/* Whether nothing of this priority may be sent now. A frame that has begun goes on to its end. */
static inline bool pfc_is_paused(const struct pfc_port *port, unsigned priority, u64 now)
{
	return port->priority[priority].paused_until_ns > now;
}

/* A PFC frame came in: each priority it names waits as long as it says, from now; 0 opens it. */
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

/* Stops a priority at the other end until pfc_go(). */
static inline void pfc_stop(struct pfc_port *port, unsigned priority, u64 now)
{
	struct pfc_priority *state = &port->priority[priority];

	if (state->stopped)
		return;
	state->stopped = true;
	state->is_news = !state->is_news; /* what was not told yet is taken back */
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

/* Stops a priority whose buffer holds more than `xoff`, and lets it go when it holds no more than `xon`. */
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
 * Takes the PFC frame that has to be sent now, but for its sender; false if there is none. A stop is told
 * again when half of its quanta have run, so that one frame may be lost, or late, and the other end stays
 * stopped.
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

/* When pfc_take() will have something; PFC_NEVER if not before the next stop. */
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
