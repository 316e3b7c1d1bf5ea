/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PFC watchdog of one queue (a lossless priority of a port), modelled on SONiC's pfcwd: detects that the
 * peer has paused the queue for so long that it must be broken, and that it has recovered. Pure state:
 * observations and the time, in nanoseconds of a monotonic clock, are arguments.
 *
 * The queue is polled every watchdog_poll_ns(). It is in a *storm* after `detect_ns` in which, in every poll,
 * it held frames, sent none, and was paused for more than 99 % of the time. It is *restored* after
 * `restore_ns` without any pause.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

enum watchdog_action {
	WATCHDOG_OFF,
	WATCHDOG_DROP,    /* drop the frames in the queue and those that arrive for it */
	WATCHDOG_FORWARD, /* do not honour the pause */
	WATCHDOG_ALERT,   /* report the storm only */
};

struct watchdog {
	u64 detect_ns, restore_ns;
	enum watchdog_action action;
};

/* One observation of a queue: what it holds now, and totals since its creation. */
struct watchdog_seen {
	u64 held; /* bytes */
	u64 sent; /* frames */
	u64 paused_us;
};

struct watchdog_queue {
	struct watchdog_seen last;
	u64 looked_ns;
	u64 counted_ns; /* how long the condition for the next state has held */
	u64 began_ns;   /* the poll since which it has held */
	bool is_storming;
};

enum watchdog_news {
	WATCHDOG_NOTHING,
	WATCHDOG_STORM,
	WATCHDOG_RESTORED,
};

/* The poll interval: a tenth of the shorter of the two times. */
u64 watchdog_poll_ns(const struct watchdog *watchdog);

/*
 * Polls a queue. A late poll counts as at most two intervals: a process that did not run has not seen the
 * PFC frames that arrived meanwhile.
 */
enum watchdog_news watchdog_look(const struct watchdog *watchdog, struct watchdog_queue *queue,
				 const struct watchdog_seen *seen, u64 now);
