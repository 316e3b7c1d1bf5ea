/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Max-min fair rates of flows that share links: progressive filling (Bertsekas and Gallager, "Data Networks",
 * 1992, section 6.5.2), of only those flows that a change can affect.
 *
 * Lanes are numbered, and active or not. Only the links of a lane's route limit it. cffi does not read this
 * file.
 */
#pragma once

#include <stdbool.h>

#include "predict/fluid/fluid.h"

struct share_slot { /* a lane on one link of its route */
	u32 lane, before, after;
};

struct share_link {
	double left;   /* while rates are computed: capacity not given to a lane yet */
	u32 unsettled; /* and lanes without a rate */
	u32 head;      /* the first slot of an active lane, or FLUID_NONE */
	u32 mark;
	bool dirty;
};

struct share_key {
	double share;
	u32 link;
};

struct share {
	const struct fluid_network *network;
	struct share_link *link;
	struct share_slot *slot; /* by place in network->route */
	double *rate;            /* by lane, bytes/s */
	double *settled;         /* by lane: the new rate */
	u32 *lane_mark;
	bool *active;
	u32 *dirty, dirties; /* links whose lanes have changed */
	u32 *links;          /* of the component that is being computed */
	u32 *lanes, found; /* the lanes whose rate may have changed since the last call of share_compute() */
	struct share_key *heap;
	u32 mark;
};

/* False if there is no memory; the network must be valid and outlive the result. */
bool share_open(struct share *share, const struct fluid_network *network);
void share_close(struct share *share);

void share_add(struct share *share, u32 lane);
void share_remove(struct share *share, u32 lane);

/* Compute the rates that changes since the last call affect: `lanes[0 .. found)`, in `settled`. */
void share_compute(struct share *share);
