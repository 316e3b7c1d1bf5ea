/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fluid simulation: segments flow through lanes, which share links max-min fairly.
 *
 * A lane sends one segment at a time, in order, when its gate is open (program.h). A segment arrives
 * `latency` after its last byte was sent, and is applied when its second gate is open. Lanes without segments
 * are background flows, which never end. Events within `quantum_s` of each other count as simultaneous: with
 * 0, only those that rounding separates. cffi parses this file: declarations and numeric macros only.
 */
#pragma once

#include <stdbool.h>

#include "predict/fluid/program.h"

#define FLUID_NONE 0xffffffffU

#define FLUID_ENDED   0
#define FLUID_GOES_ON 1
#define FLUID_STUCK   2 /* no event is left, but segments are: a link of their route has no capacity */

/* `first_link` has the start of each lane's row of `route`, and one more element. */
struct fluid_network {
	u32 lanes, links;
	const double *capacity; /* by link, bytes/s */
	const u32 *first_link, *route;
};

struct fluid_input {
	struct fluid_network network;
	const struct program *program;
	const u32 *first_segment; /* by lane, and one more element */
	const double *latency_s;  /* by lane */
	const double *start_s;    /* by lane: it sends nothing before */
	double item_bytes;
	double quantum_s;
	double *applied_s; /* by segment, written when it is applied; or NULL */
};

struct fluid;

/* NULL if the input is inconsistent, or there is no memory. The input's arrays must outlive the result. */
struct fluid *fluid_open(const struct fluid_input *input);
void fluid_close(struct fluid *fluid);

/* Simulate until about `events` segments more were sent: one of FLUID_ENDED, FLUID_GOES_ON, FLUID_STUCK. */
int fluid_run(struct fluid *fluid, u64 events);

double fluid_now(const struct fluid *fluid);
u32 fluid_applied(const struct fluid *fluid);           /* segments */
u32 fluid_waiting(const struct fluid *fluid, u32 lane); /* its first segment not sent yet, or FLUID_NONE */
bool fluid_is_stopped(const struct fluid *fluid, u32 lane); /* it has begun a segment, but has no rate */
