/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DCQCN's reaction point: the rate of a sender that is told of congestion by CNPs.
 *
 * Y. Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 5. A CNP cuts
 * the current rate by alpha / 2 and makes it the rate to come back to; without CNPs it comes half the way
 * back at every event, of which there is one each INCREASE_NS and one each INCREASE_BYTES. After five events
 * of one kind the target grows too, after five of both it grows faster. Alpha says how much of the time there
 * was congestion of late. Steps that the paper gives for 40 Gbit/s are shares of the port's rate here.
 *
 * Its times are those of a network whose packets follow each other in less than a microsecond. Where a packet
 * takes longer than the 50 us between two CNPs, nobody can tell in that time whether it helped: there the
 * time that a packet takes is the unit, of which alpha's pace is 1.1 and that of the increase is 6.
 */
#pragma once

#include "wire/types.h"

#define DCQCN_ALPHA_ONE      (1U << 16)
#define DCQCN_GAIN_SHIFT     8     /* g = 1/256 */
#define DCQCN_CNP_NS         50000 /* a receiver sends a CNP at most this often: the unit */
#define DCQCN_ALPHA_TENTHS   11    /* of the unit: alpha decays at this pace, 55 us */
#define DCQCN_INCREASE_UNITS 6     /* 300 us as mlx5 has it; the paper: 1.5 ms */
#define DCQCN_INCREASE_SENDS 7     /* as many times what the port sends meanwhile: 10 MB at 40 Gbit/s */
#define DCQCN_FAST_EVENTS    5
#define DCQCN_ADD_SHIFT      10 /* 1/1024 of the port's rate: 40 Mbit/s at 40 Gbit/s */
#define DCQCN_HYPER_SHIFT    7  /* 1/128 */
#define DCQCN_FLOOR_SHIFT    7
#define DCQCN_TURNS_MAX      1024 /* after a long silence: alpha and the rate are at rest by then */

struct dcqcn {
	u64 port_bps, current_bps, target_bps;     /* port_bps 0: no congestion control */
	u64 alpha_ns, increase_ns, increase_bytes; /* the paces */
	u32 alpha;                                 /* DCQCN_ALPHA_ONE is 1 */
	u32 time_events, byte_events;
	u64 bytes;
	u64 alpha_at_ns, increase_at_ns;
};

/* How far CNPs are apart, on a port where the longest packets have so many bytes; any rate is 0. */
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

/* A CNP came. */
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

/* A frame of so many bytes was sent. */
static inline void dcqcn_sent(struct dcqcn *state, u32 bytes)
{
	state->bytes += bytes;
	if (state->bytes < state->increase_bytes)
		return;
	state->bytes -= state->increase_bytes;
	state->byte_events++;
	dcqcn_increase(state);
}

/* What time alone has done until now. */
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
	/* What a long silence has left over is forgotten. */
	if (state->alpha_at_ns <= now_ns)
		state->alpha_at_ns = now_ns + state->alpha_ns;
	if (state->increase_at_ns <= now_ns)
		state->increase_at_ns = now_ns + state->increase_ns;
}

static inline u64 dcqcn_next_ns(const struct dcqcn *state)
{
	return state->alpha_at_ns < state->increase_at_ns ? state->alpha_at_ns : state->increase_at_ns;
}
