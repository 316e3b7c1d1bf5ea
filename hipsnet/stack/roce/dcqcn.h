/*
 * DCQCN's reaction point: the rate of a sender that is told of congestion by CNPs.
 *
 * Y. Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015, section 5. A CNP cuts
 * the current rate by alpha / 2 and makes it the rate to come back to; without CNPs it comes half the way
 * back at every event, of which there is one each INCREASE_NS and one each INCREASE_BYTES. After five events
 * of one kind the target grows too, after five of both it grows faster. Alpha says how much of the time there
 * was congestion of late. Steps that the paper gives for 40 Gbit/s are shares of the port's rate here.
 */
#pragma once

#include "wire/types.h"

#define DCQCN_ALPHA_ONE      (1U << 16)
#define DCQCN_GAIN_SHIFT     8      /* g = 1/256 */
#define DCQCN_ALPHA_NS       55000  /* alpha decays at this pace */
#define DCQCN_INCREASE_NS    300000 /* the paper has 1.5 ms, mlx5 300 us */
#define DCQCN_INCREASE_BYTES 10000000
#define DCQCN_FAST_EVENTS    5
#define DCQCN_CNP_NS         50000 /* a receiver sends a CNP at most this often */
#define DCQCN_ADD_SHIFT      10    /* 1/1024 of the port's rate: 40 Mbit/s at 40 Gbit/s */
#define DCQCN_HYPER_SHIFT    7     /* 1/128 */
#define DCQCN_FLOOR_SHIFT    10
#define DCQCN_TURNS_MAX      1024 /* after a long silence: alpha and the rate are at rest by then */

struct dcqcn {
	u64 port_bps, current_bps, target_bps; /* port_bps 0: no congestion control */
	u32 alpha;                             /* DCQCN_ALPHA_ONE is 1 */
	u32 time_events, byte_events, bytes;
	u64 alpha_at_ns, increase_at_ns;
};

static inline void dcqcn_init(struct dcqcn *state, u64 port_bps, u64 now_ns)
{
	*state = (struct dcqcn){
		.port_bps = port_bps,
		.current_bps = port_bps,
		.target_bps = port_bps,
		.alpha = DCQCN_ALPHA_ONE,
		.alpha_at_ns = now_ns + DCQCN_ALPHA_NS,
		.increase_at_ns = now_ns + DCQCN_INCREASE_NS,
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
	state->alpha_at_ns = now_ns + DCQCN_ALPHA_NS;
	state->increase_at_ns = now_ns + DCQCN_INCREASE_NS;
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
	if (state->bytes < DCQCN_INCREASE_BYTES)
		return;
	state->bytes -= DCQCN_INCREASE_BYTES;
	state->byte_events++;
	dcqcn_increase(state);
}

/* What time alone has done until now. */
static inline void dcqcn_advance(struct dcqcn *state, u64 now_ns)
{
	for (int i = 0; state->alpha_at_ns <= now_ns && i < DCQCN_TURNS_MAX; i++) {
		state->alpha -= state->alpha >> DCQCN_GAIN_SHIFT;
		state->alpha_at_ns += DCQCN_ALPHA_NS;
	}
	for (int i = 0; state->increase_at_ns <= now_ns && i < DCQCN_TURNS_MAX; i++) {
		state->time_events++;
		dcqcn_increase(state);
		state->increase_at_ns += DCQCN_INCREASE_NS;
	}
	/* What a long silence has left over is forgotten. */
	if (state->alpha_at_ns <= now_ns)
		state->alpha_at_ns = now_ns + DCQCN_ALPHA_NS;
	if (state->increase_at_ns <= now_ns)
		state->increase_at_ns = now_ns + DCQCN_INCREASE_NS;
}

static inline u64 dcqcn_next_ns(const struct dcqcn *state)
{
	return state->alpha_at_ns < state->increase_at_ns ? state->alpha_at_ns : state->increase_at_ns;
}
