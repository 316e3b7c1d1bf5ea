// SPDX-License-Identifier: Apache-2.0
#include "predict/fluid/fluid.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "predict/fluid/share.h"

#define ROUNDING 1e-12 /* of the present time: what rounding may separate */

struct arrival { /* of segment `what`; or, above the number of segments, the start of a lane */
	double at;
	u32 what;
};

struct fluid {
	struct fluid_input in;
	struct share share;
	double now;
	u32 applied, sent;
	u32 *waits;           /* by gate */
	u32 *next;            /* by lane: the segment that it sends now, or next */
	double *left, *since; /* by lane: bytes left at that time */
	double *ends;         /* by lane */
	bool *is_sending;     /* the lane has begun the segment `next` */
	u32 *heap, *place;    /* lanes by `ends`; the place of each in the heap */
	struct arrival *arrival;
	u32 arrivals, arrivals_allocated;
	u32 *touched, touches; /* lanes that may begin or stop to send */
	bool *is_touched;
	u32 *opened, opens; /* segments whose application releases others */
};

static bool is_consistent(const struct fluid_input *in)
{
	const struct fluid_network *net = &in->network;

	for (u32 lane = 0; lane < net->lanes; lane++) {
		if (net->first_link[lane] > net->first_link[lane + 1] ||
		    in->first_segment[lane] > in->first_segment[lane + 1])
			return false;
		if (!(in->latency_s[lane] >= 0) || !(in->start_s[lane] >= 0))
			return false;
		if (net->first_link[lane] == net->first_link[lane + 1])
			return false;
	}
	for (u32 i = 0; i < net->first_link[net->lanes]; i++) {
		if (net->route[i] >= net->links)
			return false;
	}
	for (u32 link = 0; link < net->links; link++) {
		if (!(net->capacity[link] >= 0))
			return false;
	}
	return in->first_segment[0] == 0 && in->first_segment[net->lanes] == in->program->segments &&
	       in->quantum_s >= 0 && in->item_bytes > 0;
}

static bool allocate(struct fluid *fluid)
{
	size_t lanes = (size_t)fluid->in.network.lanes + 1,
	       segments = (size_t)fluid->in.program->segments + 1;

	fluid->waits = malloc(2 * segments * sizeof(u32));
	fluid->next = calloc(lanes, sizeof(u32));
	fluid->left = calloc(lanes, sizeof(double));
	fluid->since = calloc(lanes, sizeof(double));
	fluid->ends = calloc(lanes, sizeof(double));
	fluid->is_sending = calloc(lanes, sizeof(bool));
	fluid->heap = calloc(lanes, sizeof(u32));
	fluid->place = calloc(lanes, sizeof(u32));
	fluid->touched = calloc(lanes, sizeof(u32));
	fluid->is_touched = calloc(lanes, sizeof(bool));
	fluid->opened = calloc(segments, sizeof(u32));
	/* Every segment and every lane's start is in the queue at most once, so it never grows beyond this.
	 */
	fluid->arrivals_allocated = (u32)(segments + lanes);
	fluid->arrival = calloc(fluid->arrivals_allocated, sizeof(struct arrival));
	return fluid->waits && fluid->next && fluid->left && fluid->since && fluid->ends &&
	       fluid->is_sending && fluid->heap && fluid->place && fluid->touched && fluid->is_touched &&
	       fluid->opened && fluid->arrival;
}

static void heap_set(struct fluid *fluid, u32 place, u32 lane)
{
	fluid->heap[place] = lane;
	fluid->place[lane] = place;
}

/* Restore the order of the heap around a lane whose `ends` has changed. */
static void heap_fix(struct fluid *fluid, u32 lane)
{
	const double *ends = fluid->ends;
	u32 size = fluid->in.network.lanes, at = fluid->place[lane];

	while (at && ends[lane] < ends[fluid->heap[(at - 1) / 2]]) {
		heap_set(fluid, at, fluid->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (u32 child; (child = 2 * at + 1) < size; at = child) {
		if (child + 1 < size && ends[fluid->heap[child + 1]] < ends[fluid->heap[child]])
			child++;
		if (ends[lane] <= ends[fluid->heap[child]])
			break;
		heap_set(fluid, at, fluid->heap[child]);
	}
	heap_set(fluid, at, lane);
}

static void push_arrival(struct fluid *fluid, double at, u32 what)
{
	u32 place = fluid->arrivals++;

	while (place && at < fluid->arrival[(place - 1) / 2].at) {
		fluid->arrival[place] = fluid->arrival[(place - 1) / 2];
		place = (place - 1) / 2;
	}
	fluid->arrival[place] = (struct arrival){at, what};
}

static u32 pop_arrival(struct fluid *fluid)
{
	struct arrival *queue = fluid->arrival, last = queue[--fluid->arrivals];
	u32 what = queue[0].what, at = 0;

	for (u32 child; (child = 2 * at + 1) < fluid->arrivals; at = child) {
		if (child + 1 < fluid->arrivals && queue[child + 1].at < queue[child].at)
			child++;
		if (last.at <= queue[child].at)
			break;
		queue[at] = queue[child];
	}
	queue[at] = last;
	return what;
}

static void touch(struct fluid *fluid, u32 lane)
{
	if (!fluid->is_touched[lane]) {
		fluid->is_touched[lane] = true;
		fluid->touched[fluid->touches++] = lane;
	}
}

/* The lane of a segment. */
static u32 lane_of(const struct fluid *fluid, u32 segment)
{
	const u32 *first = fluid->in.first_segment;
	u32 low = 0, high = fluid->in.network.lanes - 1;

	while (low < high) {
		u32 middle = low + (high - low + 1) / 2;

		if (first[middle] <= segment)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static void open_gate(struct fluid *fluid, u32 gate)
{
	if (--fluid->waits[gate])
		return;
	if (gate & 1)
		fluid->opened[fluid->opens++] = gate / 2;
	else
		touch(fluid, lane_of(fluid, gate / 2));
}

static void release(struct fluid *fluid, u32 event)
{
	const struct program *program = fluid->in.program;

	for (u32 edge = program->first[event]; edge != PROGRAM_NONE; edge = program->edge_next[edge])
		open_gate(fluid, program->edge_gate[edge]);
}

/* Apply the segments whose second gate is open; this may open those of others. */
static void apply(struct fluid *fluid)
{
	while (fluid->opens) {
		u32 segment = fluid->opened[--fluid->opens];

		fluid->applied++;
		if (fluid->in.applied_s)
			fluid->in.applied_s[segment] = fluid->now;
		release(fluid, 2 * segment + 1);
	}
}

static void arrive(struct fluid *fluid, u32 what)
{
	u32 segments = fluid->in.program->segments;

	if (what < segments)
		open_gate(fluid, 2 * what + 1);
	else
		open_gate(fluid, 2 * fluid->in.first_segment[what - segments]);
}

static bool has_segments(const struct fluid *fluid, u32 lane)
{
	return fluid->in.first_segment[lane] < fluid->in.first_segment[lane + 1];
}

/* A lane's segment has been sent. The lane keeps its rate for now: often it goes on with the next segment. */
static void finish(struct fluid *fluid, u32 lane)
{
	u32 segment = fluid->next[lane]++;
	double latency = fluid->in.latency_s[lane];

	fluid->sent++;
	fluid->is_sending[lane] = false;
	fluid->ends[lane] = INFINITY;
	heap_fix(fluid, lane);
	touch(fluid, lane);
	release(fluid, 2 * segment);
	if (latency > 0)
		push_arrival(fluid, fluid->now + latency, segment);
	else
		arrive(fluid, segment);
}

static void schedule(struct fluid *fluid, u32 lane)
{
	double rate = fluid->share.rate[lane];

	fluid->ends[lane] =
		rate > 0 && has_segments(fluid, lane) ? fluid->now + fluid->left[lane] / rate : INFINITY;
	heap_fix(fluid, lane);
}

/* Begin the next segments of the lanes that may send, and stop the others. */
static void turn(struct fluid *fluid)
{
	for (u32 i = 0; i < fluid->touches; i++) {
		u32 lane = fluid->touched[i], next = fluid->next[lane];
		bool sends = next < fluid->in.first_segment[lane + 1] && !fluid->waits[2 * next];
		bool active = fluid->share.active[lane];

		fluid->is_touched[lane] = false;
		if (sends && !fluid->is_sending[lane]) {
			fluid->is_sending[lane] = true;
			fluid->left[lane] = fluid->in.program->elements[next] * fluid->in.item_bytes;
			fluid->since[lane] = fluid->now;
			if (active)
				schedule(fluid, lane);
		}
		if (sends && !active)
			share_add(&fluid->share, lane);
		else if (!sends && active)
			share_remove(&fluid->share, lane);
	}
	fluid->touches = 0;
}

/* Rates that differ by rounding only stay as they are, so that equal flows end at the same time. */
static bool is_same(double a, double b)
{
	return fabs(a - b) <= ROUNDING * a;
}

static void change_rates(struct fluid *fluid)
{
	struct share *share = &fluid->share;

	share_compute(share);
	for (u32 i = 0; i < share->found; i++) {
		u32 lane = share->lanes[i];
		double left = fluid->left[lane] - share->rate[lane] * (fluid->now - fluid->since[lane]);

		if (is_same(share->settled[lane], share->rate[lane]))
			continue;
		fluid->left[lane] = left > 0 ? left : 0;
		fluid->since[lane] = fluid->now;
		share->rate[lane] = share->settled[lane];
		schedule(fluid, lane);
	}
}

/* Process all events of one moment; false if there are none left. */
static bool advance(struct fluid *fluid)
{
	double *ends = fluid->ends;
	double lane_s = fluid->in.network.lanes ? ends[fluid->heap[0]] : INFINITY;
	double arrival_s = fluid->arrivals ? fluid->arrival[0].at : INFINITY;
	double first = fmin(lane_s, arrival_s);
	double last = first + fmax(fluid->in.quantum_s, ROUNDING * first);

	if (isinf(first))
		return false;
	fluid->now = first;
	while (fluid->arrivals && fluid->arrival[0].at <= last) {
		fluid->now = fmax(fluid->now, fluid->arrival[0].at);
		arrive(fluid, pop_arrival(fluid));
	}
	while (fluid->in.network.lanes && ends[fluid->heap[0]] <= last) {
		fluid->now = fmax(fluid->now, ends[fluid->heap[0]]);
		finish(fluid, fluid->heap[0]);
	}
	apply(fluid);
	turn(fluid);
	change_rates(fluid);
	return true;
}

/* Every segment waits for its arrival, too; the first one of a lane that starts late, for the start. */
static void begin(struct fluid *fluid)
{
	u32 segments = fluid->in.program->segments;

	memcpy(fluid->waits, fluid->in.program->waits, 2 * (size_t)segments * sizeof(u32));
	for (u32 segment = 0; segment < segments; segment++)
		fluid->waits[2 * segment + 1]++;
	for (u32 lane = 0; lane < fluid->in.network.lanes; lane++) {
		heap_set(fluid, lane, lane);
		fluid->ends[lane] = INFINITY;
		fluid->next[lane] = fluid->in.first_segment[lane];
		if (!has_segments(fluid, lane)) {
			share_add(&fluid->share, lane);
		} else if (fluid->in.start_s[lane] > 0) {
			fluid->waits[2 * fluid->next[lane]]++;
			push_arrival(fluid, fluid->in.start_s[lane], segments + lane);
		} else {
			touch(fluid, lane);
		}
	}
	turn(fluid);
	change_rates(fluid);
}

struct fluid *fluid_open(const struct fluid_input *in)
{
	struct fluid *fluid = calloc(1, sizeof(*fluid));

	if (!fluid)
		return NULL;
	fluid->in = *in;
	if (!is_consistent(in) || !share_open(&fluid->share, &fluid->in.network) || !allocate(fluid)) {
		fluid_close(fluid);
		return NULL;
	}
	begin(fluid);
	return fluid;
}

void fluid_close(struct fluid *fluid)
{
	if (!fluid)
		return;
	share_close(&fluid->share);
	free(fluid->waits);
	free(fluid->next);
	free(fluid->left);
	free(fluid->since);
	free(fluid->ends);
	free(fluid->is_sending);
	free(fluid->heap);
	free(fluid->place);
	free(fluid->touched);
	free(fluid->is_touched);
	free(fluid->opened);
	free(fluid->arrival);
	free(fluid);
}

int fluid_run(struct fluid *fluid, u64 events)
{
	u64 goal = fluid->sent + events;

	while (fluid->applied < fluid->in.program->segments) {
		if (fluid->sent >= goal)
			return FLUID_GOES_ON;
		if (!advance(fluid))
			return FLUID_STUCK;
	}
	return FLUID_ENDED;
}

double fluid_now(const struct fluid *fluid)
{
	return fluid->now;
}

u32 fluid_applied(const struct fluid *fluid)
{
	return fluid->applied;
}

u32 fluid_waiting(const struct fluid *fluid, u32 lane)
{
	return fluid->next[lane] < fluid->in.first_segment[lane + 1] ? fluid->next[lane] : FLUID_NONE;
}

bool fluid_is_stopped(const struct fluid *fluid, u32 lane)
{
	return fluid->is_sending[lane] && !(fluid->share.rate[lane] > 0);
}
