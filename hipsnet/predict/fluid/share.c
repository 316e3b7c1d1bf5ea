// SPDX-License-Identifier: Apache-2.0
#include "predict/fluid/share.h"

#include <stdlib.h>

bool share_open(struct share *share, const struct fluid_network *network)
{
	size_t lanes = (size_t)network->lanes + 1, links = (size_t)network->links + 1;
	size_t places = (size_t)network->first_link[network->lanes] + 1;

	*share = (struct share){.network = network, .mark = 0};
	share->link = calloc(links, sizeof(*share->link));
	share->slot = calloc(places, sizeof(*share->slot));
	share->rate = calloc(lanes, sizeof(*share->rate));
	share->settled = calloc(lanes, sizeof(*share->settled));
	share->lane_mark = calloc(lanes, sizeof(*share->lane_mark));
	share->active = calloc(lanes, sizeof(*share->active));
	share->dirty = calloc(links, sizeof(*share->dirty));
	share->links = calloc(links, sizeof(*share->links));
	share->lanes = calloc(lanes, sizeof(*share->lanes));
	share->heap = calloc(links, sizeof(*share->heap));
	if (!share->link || !share->slot || !share->rate || !share->settled || !share->lane_mark ||
	    !share->active || !share->dirty || !share->links || !share->lanes || !share->heap)
		return false;
	for (u32 i = 0; i < network->links; i++)
		share->link[i].head = FLUID_NONE;
	return true;
}

void share_close(struct share *share)
{
	free(share->link);
	free(share->slot);
	free(share->rate);
	free(share->settled);
	free(share->lane_mark);
	free(share->active);
	free(share->dirty);
	free(share->links);
	free(share->lanes);
	free(share->heap);
}

static void touch(struct share *share, u32 link)
{
	if (!share->link[link].dirty) {
		share->link[link].dirty = true;
		share->dirty[share->dirties++] = link;
	}
}

void share_add(struct share *share, u32 lane)
{
	const struct fluid_network *net = share->network;

	share->active[lane] = true;
	for (u32 i = net->first_link[lane]; i < net->first_link[lane + 1]; i++) {
		struct share_link *link = &share->link[net->route[i]];

		share->slot[i] = (struct share_slot){.lane = lane, .before = FLUID_NONE, .after = link->head};
		if (link->head != FLUID_NONE)
			share->slot[link->head].before = i;
		link->head = i;
		touch(share, net->route[i]);
	}
}

void share_remove(struct share *share, u32 lane)
{
	const struct fluid_network *net = share->network;

	share->active[lane] = false;
	share->rate[lane] = 0;
	for (u32 i = net->first_link[lane]; i < net->first_link[lane + 1]; i++) {
		struct share_slot *slot = &share->slot[i];

		if (slot->before == FLUID_NONE)
			share->link[net->route[i]].head = slot->after;
		else
			share->slot[slot->before].after = slot->after;
		if (slot->after != FLUID_NONE)
			share->slot[slot->after].before = slot->before;
		touch(share, net->route[i]);
	}
}

static void sift_down(struct share_key *heap, u32 size, u32 place)
{
	for (u32 child; (child = 2 * place + 1) < size; place = child) {
		struct share_key moved = heap[place];

		if (child + 1 < size && heap[child + 1].share < heap[child].share)
			child++;
		if (moved.share <= heap[child].share)
			return;
		heap[place] = heap[child];
		heap[child] = moved;
	}
}

static double fair(const struct share_link *link)
{
	return link->left > 0 ? link->left / link->unsettled : 0;
}

/* Find the links and lanes that are connected with `link` by active lanes; lanes go behind `found`. */
static u32 component(struct share *share, u32 link)
{
	const struct fluid_network *net = share->network;
	u32 links = 0;

	share->link[link].mark = share->mark;
	share->links[links++] = link;
	for (u32 next = 0; next < links; next++) {
		struct share_link *here = &share->link[share->links[next]];

		here->left = net->capacity[share->links[next]];
		here->unsettled = 0;
		for (u32 at = here->head; at != FLUID_NONE; at = share->slot[at].after) {
			u32 lane = share->slot[at].lane;

			here->unsettled++;
			if (share->lane_mark[lane] == share->mark)
				continue;
			share->lane_mark[lane] = share->mark;
			share->settled[lane] = -1;
			share->lanes[share->found++] = lane;
			for (u32 i = net->first_link[lane]; i < net->first_link[lane + 1]; i++) {
				if (share->link[net->route[i]].mark == share->mark)
					continue;
				share->link[net->route[i]].mark = share->mark;
				share->links[links++] = net->route[i];
			}
		}
	}
	return links;
}

/* Give the lanes of a bottleneck their rate, and take it from the other links of their routes. */
static void settle(struct share *share, u32 link, double rate)
{
	const struct fluid_network *net = share->network;

	for (u32 at = share->link[link].head; at != FLUID_NONE; at = share->slot[at].after) {
		u32 lane = share->slot[at].lane;

		if (share->settled[lane] >= 0)
			continue;
		share->settled[lane] = rate;
		for (u32 i = net->first_link[lane]; i < net->first_link[lane + 1]; i++) {
			share->link[net->route[i]].left -= rate;
			share->link[net->route[i]].unsettled--;
		}
	}
}

/* A link's fair share only grows while others are settled, so an entry of the heap is never above it. */
static void fill(struct share *share, u32 links)
{
	struct share_key *heap = share->heap;
	u32 size = 0;

	for (u32 i = 0; i < links; i++) {
		struct share_link *link = &share->link[share->links[i]];

		if (link->unsettled)
			heap[size++] = (struct share_key){fair(link), share->links[i]};
	}
	for (u32 place = size / 2; place-- > 0;)
		sift_down(heap, size, place);
	while (size) {
		struct share_link *link = &share->link[heap[0].link];

		if (link->unsettled && fair(link) > heap[0].share) {
			heap[0].share = fair(link);
		} else {
			if (link->unsettled)
				settle(share, heap[0].link, heap[0].share);
			heap[0] = heap[--size];
		}
		sift_down(heap, size, 0);
	}
}

void share_compute(struct share *share)
{
	share->found = 0;
	share->mark++;
	for (u32 i = 0; i < share->dirties; i++) {
		struct share_link *link = &share->link[share->dirty[i]];

		link->dirty = false;
		if (link->mark != share->mark)
			fill(share, component(share, share->dirty[i]));
	}
	share->dirties = 0;
}
