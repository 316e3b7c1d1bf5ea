// SPDX-License-Identifier: Apache-2.0
/* See cable/watchdog.h. */
#include "cable/watchdog.h"

enum { POLLS = 10, NS_PER_US = 1000 };

static u64 least(u64 a, u64 b)
{
	return a < b ? a : b;
}

u64 watchdog_poll_ns(const struct watchdog *watchdog)
{
	return least(watchdog->detect_ns, watchdog->restore_ns) / POLLS;
}

static bool is_stuck(const struct watchdog_seen *last, const struct watchdog_seen *seen, u64 elapsed_ns)
{
	u64 paused_ns = (seen->paused_us - last->paused_us) * NS_PER_US;

	return seen->held && seen->sent == last->sent && 100 * paused_ns > 99 * elapsed_ns;
}

/* Whether the condition has held for long enough. */
static bool lasts(struct watchdog_queue *queue, bool goes_on, u64 most_ns, u64 enough_ns, u64 now)
{
	u64 elapsed_ns = now - queue->looked_ns;

	if (!goes_on) {
		queue->counted_ns = 0;
		return false;
	}
	if (!queue->counted_ns)
		queue->began_ns = queue->looked_ns;
	queue->counted_ns += least(elapsed_ns, most_ns);
	if (queue->counted_ns < enough_ns)
		return false;
	queue->counted_ns = 0;
	return true;
}

enum watchdog_news watchdog_look(const struct watchdog *watchdog, struct watchdog_queue *queue,
				 const struct watchdog_seen *seen, u64 now)
{
	struct watchdog_seen last = queue->last;
	u64 enough_ns = queue->is_storming ? watchdog->restore_ns : watchdog->detect_ns;
	bool is_first = !queue->looked_ns;
	bool goes_on = queue->is_storming ? seen->paused_us == last.paused_us
					  : is_stuck(&last, seen, now - queue->looked_ns);
	bool is_enough = !is_first && lasts(queue, goes_on, 2 * watchdog_poll_ns(watchdog), enough_ns, now);

	queue->last = *seen;
	queue->looked_ns = now;
	if (!is_enough)
		return WATCHDOG_NOTHING;
	queue->is_storming = !queue->is_storming;
	return queue->is_storming ? WATCHDOG_STORM : WATCHDOG_RESTORED;
}
