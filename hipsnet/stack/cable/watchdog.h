/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PFC watchdog of one queue, a lossless priority of a port, in the manner of SONiC's pfcwd: whether the
 * other end of the cable has stopped it for so long that it must be broken, and whether it is well again.
 * Pure state: what was seen and the time are arguments, in nanoseconds of a clock that never goes back.
 *
 * Looked at every watchdog_poll_ns(), a queue is in a *storm* when for `detect_ns` on end it has held frames,
 * has sent none, and was paused for more than 99 % of each poll. It is *restored* when for `restore_ns` on
 * end it was not paused at all.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

enum watchdog_action {
	WATCHDOG_OFF,     /* there is none */
	WATCHDOG_DROP,    /* what waits and what comes for the queue is lost */
	WATCHDOG_FORWARD, /* the pause is not honoured */
	WATCHDOG_ALERT,   /* it is told */
};

struct watchdog {
	u64 detect_ns, restore_ns;
	enum watchdog_action action;
};

/* Of a queue since it is there, but for what it holds now. */
struct watchdog_seen {
	u64 held; /* bytes */
	u64 sent; /* frames */
	u64 paused_us;
};

struct watchdog_queue {
	struct watchdog_seen last;
	u64 looked_ns;
	u64 counted_ns; /* of what would make it a storm, or well again */
	u64 began_ns;   /* the first poll of that */
	bool is_storming;
};

enum watchdog_news {
	WATCHDOG_NOTHING,
	WATCHDOG_STORM,
	WATCHDOG_RESTORED,
};

/* The time from one look to the next: a tenth of the shorter time. */
u64 watchdog_poll_ns(const struct watchdog *watchdog);

/*
 * Looks at a queue. A poll that comes late counts as two at most: who was not there has not seen what the
 * other end said.
 */
enum watchdog_news watchdog_look(const struct watchdog *watchdog, struct watchdog_queue *queue,
				 const struct watchdog_seen *seen, u64 now);
