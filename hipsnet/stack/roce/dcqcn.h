/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DCQCN's reaction point: the rate of a sender that receives CNPs.
 *
 * Y. Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 5. A CNP makes
 * the current rate the target and then cuts the current rate by alpha / 2. Each increase event moves the
 * current rate half-way to the target; events occur at a time interval and at a byte interval. After five
 * events of one kind the target grows too, after five of both kinds it grows faster. Alpha estimates how
 * often the path is congested. Steps that the paper gives for 40 Gbit/s are fractions of the port's rate
 * here.
 *
 * The intervals suit a network whose packets take less than a microsecond. Where a packet takes longer than
 * the 50 us between two CNPs, a sender would be cut again before its next packet. There the time of a packet
 * is the unit: alpha decays every 1.1 units, the rate increases every 6.
 */
#pragma once

#include "wire/types.h"

#define DCQCN_ALPHA_ONE      (1U << 16)
#define DCQCN_GAIN_SHIFT     8     /* g = 1/256 */
#define DCQCN_CNP_NS         50000 /* least time between two CNPs: the unit */
#define DCQCN_ALPHA_TENTHS   11    /* of the unit, between two decays of alpha: 55 us */
#define DCQCN_INCREASE_UNITS 6     /* between two timed increases: 300 us as in mlx5; the paper: 1.5 ms */
#define DCQCN_INCREASE_SENDS 7     /* the byte interval: so many times what the port sends in that time */
#define DCQCN_FAST_EVENTS    5
#define DCQCN_ADD_SHIFT      10 /* 1/1024 of the port's rate: 40 Mbit/s at 40 Gbit/s */
#define DCQCN_HYPER_SHIFT    7  /* 1/128 */
#define DCQCN_FLOOR_SHIFT    7
#define DCQCN_TURNS_MAX      1024 /* after a long silence: alpha and the rate have settled by then */

struct dcqcn {
	u64 port_bps, current_bps, target_bps;     /* port_bps 0: no congestion control */
	u64 alpha_ns, increase_ns, increase_bytes; /* the intervals */
	u32 alpha;                                 /* DCQCN_ALPHA_ONE is 1 */
	u32 time_events, byte_events;
	u64 bytes;
	u64 alpha_at_ns, increase_at_ns;
};

/* The least time between two CNPs on a port with packets of `packet_bytes`; `port_bps` 0: no limit. */
static inline u64 dcqcn_unit_ns(u64 port_bps, u32 packet_bytes)
{
	u64 packet_ns = port_bps ? packet_bytes * 8000000000ULL / port_bps : 0;

	return packet_ns > DCQCN_CNP_NS ? packet_ns : DCQCN_CNP_NS;
}

static inline void dcqcn_init(struct dcqcn *state, u64 port_bps, u64 unit_ns, u64 now_ns)
{
	u64 alpha_ns = unit_ns * DCQCN_ALPHA_TENTHS / 10, increase_ns = unit_ns * DCQCN_INCREASE_UNITS;

	*state = (struct dcqcn){
		.alpha_ns = alpha_ns,
		.increase_ns = increase_ns,
		.increase_bytes = port_bps / 8 * increase_ns / 1000000000 * DCQCN_INCREASE_SENDS,
		.port_bps = port_bps,
		.current_bps = port_bps,
		.target_bps = port_bps,
		.alpha = DCQCN_ALPHA_ONE,
		.alpha_at_ns = now_ns + alpha_ns,
		.increase_at_ns = now_ns + increase_ns,
	};
}

/* A CNP has arrived. */
static inline void dcqcn_cut(struct dcqcn *state, u64 now_ns)
{
	u64 floor = state->port_bps >> DCQCN_FLOOR_SHIFT;

	state->target_bps = state->current_bps;
	state->current_bps -= (state->current_bps >> 17) * state->alpha;
	if (state->current_bps < floor)
		state->current_bps = floor;
	state->alpha += (DCQCN_ALPHA_ONE - state->alpha) >> DCQCN_GAIN_SHIFT;
	state->time_events = state->byte_events = state->bytes = 0;
	state->alpha_at_ns = now_ns + state->alpha_ns;
	state->increase_at_ns = now_ns + state->increase_ns;
}

static inline void dcqcn_increase(struct dcqcn *state)
{
	u32 time = state->time_events, bytes = state->byte_events;

	if (time > DCQCN_FAST_EVENTS && bytes > DCQCN_FAST_EVENTS)
		state->target_bps += state->port_bps >> DCQCN_HYPER_SHIFT;
	else if (time > DCQCN_FAST_EVENTS || bytes > DCQCN_FAST_EVENTS)
		state->target_bps += state->port_bps >> DCQCN_ADD_SHIFT;
	if (state->target_bps > state->port_bps)
		state->target_bps = state->port_bps;
	state->current_bps = (state->current_bps + state->target_bps + 1) / 2;
}

/* A frame was sent. */
static inline void dcqcn_sent(struct dcqcn *state, u32 bytes)
{
	state->bytes += bytes;
	if (state->bytes < state->increase_bytes)
		return;
	state->bytes -= state->increase_bytes;
	state->byte_events++;
	dcqcn_increase(state);
}

/* Applies the timed events up to now. */
static inline void dcqcn_advance(struct dcqcn *state, u64 now_ns)
{
	for (int i = 0; state->alpha_at_ns <= now_ns && i < DCQCN_TURNS_MAX; i++) {
		state->alpha -= state->alpha >> DCQCN_GAIN_SHIFT;
		state->alpha_at_ns += state->alpha_ns;
	}
	for (int i = 0; state->increase_at_ns <= now_ns && i < DCQCN_TURNS_MAX; i++) {
		state->time_events++;
		dcqcn_increase(state);
		state->increase_at_ns += state->increase_ns;
	}
	/* After a long silence the remaining events are skipped. */
	if (state->alpha_at_ns <= now_ns)
		state->alpha_at_ns = now_ns + state->alpha_ns;
	if (state->increase_at_ns <= now_ns)
		state->increase_at_ns = now_ns + state->increase_ns;
}

static inline u64 dcqcn_next_ns(const struct dcqcn *state)
{
	return state->alpha_at_ns < state->increase_at_ns ? state->alpha_at_ns : state->increase_at_ns;
}
