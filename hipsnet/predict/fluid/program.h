/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segments of all ranks of a schedule, and what each waits for: collective/plan.py for all ranks at once.
 *
 * Segments are numbered lane by lane, in the order of sending; a lane is one direction of a connection. Each
 * segment s has two gates: 2s, before it may be sent, and 2s + 1, before it may be applied at the receiver.
 * The gate is open when as many events have occurred as it waits for. The event 2s is the end of sending, the
 * event 2s + 1 is the application. cffi parses this file: declarations and numeric macros only.
 */
#pragma once

#include "wire/types.h"

#define PROGRAM_NONE 0xffffffffU

struct program {
	u32 segments;
	u32 edges, edges_allocated;
	u32 *elements;  /* by segment */
	u32 *waits;     /* by gate */
	u32 *first;     /* by event: the first edge that leaves it, or PROGRAM_NONE */
	u32 *edge_next; /* by edge: the next edge that leaves the same event */
	u32 *edge_gate; /* by edge: the gate that it leads to */
};

/* Transfers in the order of the schedule, with columns of `transfers` rows. */
struct program_input {
	u32 ranks, transfers, cuts;
	const u64 *cut; /* `cuts` ascending places where a segment may begin or end */
	u64 chunk;      /* elements of the longest segment */
	const u32 *src, *dst;
	const u32 *step;        /* number of its (stage, round): not descending */
	const u32 *begin, *end; /* its range, as indices of `cut` */
	const u32 *order;       /* the transfers lane by lane, in the order of sending */
};

/* The number of segments; 0 if the input is inconsistent or there are 2^31 or more. */
u64 program_count(const struct program_input *input);

/* Compile. NULL if there is no memory for it; free the result by program_close(). */
struct program *program_open(const struct program_input *input);
void program_close(struct program *program);

/* Write each transfer's first segment: `transfers` numbers, and the number of all segments behind them. */
void program_firsts(const struct program_input *input, u32 *first);
