// SPDX-License-Identifier: Apache-2.0
/* See switch/buffer.h. */
#include "switch/buffer.h"

static u64 least(u64 a, u64 b)
{
	return a < b ? a : b;
}

static void note(u64 value, u64 *most)
{
	if (value > *most)
		*most = value;
}

u64 buffer_limit(const struct buffer *buffer, u32 priority)
{
	const struct buffer_class *class = &buffer->classes[priority];

	if (class->xoff)
		return class->xoff > class->reserved ? class->xoff - class->reserved : 0;
	return (u64)(class->alpha * (double)buffer_free(buffer));
}

/* Whether a lossy queue is below its limit. */
static bool has_share(const struct buffer *buffer, const struct buffer_queue *queue, u32 priority, u32 bytes)
{
	const struct buffer_class *class = &buffer->classes[priority];

	return queue->bytes + bytes <= class->reserved + (u64)(class->alpha * (double)buffer_free(buffer));
}

/* Charges the part of a frame that exceeds the reserve. */
static enum buffer_verdict charge_rest(struct buffer *buffer, struct priority_group *group, u32 priority,
				       u64 rest, bool has_place)
{
	const struct buffer_class *class = &buffer->classes[priority];
	bool fits = rest <= buffer_free(buffer);

	if (!class->lossless && !fits)
		return BUFFER_FULL;
	if (fits && (!class->lossless || group->shared + rest <= buffer_limit(buffer, priority))) {
		group->shared += rest;
		buffer->shared += rest;
		return BUFFER_TAKEN;
	}
	group->stopped = true;
	bool is_late = group->headroom + rest > class->headroom;

	if (is_late && !has_place)
		return BUFFER_OVERRUN;
	group->headroom += rest;
	buffer->headroom += rest;
	return is_late ? BUFFER_LATE : BUFFER_TAKEN;
}

enum buffer_verdict buffer_charge(struct buffer *buffer, struct buffer_place place, u32 bytes, bool has_place)
{
	const struct buffer_class *class = &buffer->classes[place.priority];
	struct priority_group *group = &buffer->groups[place.ingress][place.priority];
	struct buffer_queue *queue = &buffer->queues[place.egress][place.priority];

	if (!class->lossless && !has_share(buffer, queue, place.priority, bytes))
		return BUFFER_TAIL;

	u64 reserved = least(bytes, class->reserved - group->reserved), rest = bytes - reserved;
	enum buffer_verdict verdict =
		rest ? charge_rest(buffer, group, place.priority, rest, has_place) : BUFFER_TAKEN;

	if (verdict != BUFFER_TAKEN && verdict != BUFFER_LATE)
		return verdict;
	group->reserved += reserved;
	queue->bytes += bytes;
	note(buffer_held(group), &group->most);
	note(group->headroom, &group->most_headroom);
	note(queue->bytes, &queue->most);
	note(buffer->shared, &buffer->most_shared);
	note(buffer->headroom, &buffer->most_headroom);
	return verdict;
}

void buffer_discharge(struct buffer *buffer, struct buffer_place place, u32 bytes)
{
	struct priority_group *group = &buffer->groups[place.ingress][place.priority];
	u64 headroom = least(bytes, group->headroom);
	u64 shared = least(bytes - headroom, group->shared);

	group->headroom -= headroom;
	buffer->headroom -= headroom;
	group->shared -= shared;
	buffer->shared -= shared;
	group->reserved -= bytes - headroom - shared;
	buffer->queues[place.egress][place.priority].bytes -= bytes;
}

bool buffer_may_go(struct buffer *buffer, u32 ingress, u32 priority)
{
	const struct buffer_class *class = &buffer->classes[priority];
	struct priority_group *group = &buffer->groups[ingress][priority];

	if (!group->stopped || group->headroom)
		return !group->stopped;
	if (class->xon)
		group->stopped = buffer_held(group) > class->xon;
	else
		group->stopped =
			group->shared && group->shared + class->hysteresis > buffer_limit(buffer, priority);
	return !group->stopped;
}
