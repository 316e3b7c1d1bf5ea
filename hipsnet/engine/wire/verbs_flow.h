/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a queue pair may send: credits for the peer's receives, and space in the send queue.
 *
 * Every write and message uses one receive of the peer, which keeps `window` of them posted. Each message
 * carries the number of receives that its sender has posted again since the connection began; if no message
 * is due, a credit message does, as soon as half a window is owed. A credit message uses a receive, but no
 * credit: there is half a window between two of them, so at most 2 can wait at the peer. That many receives
 * are posted in addition, so a receive is always there (no RNR), however fast or slow either side is.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

struct verbs_flow {
	u32 window, sends;

	/* Sending; pieces are numbered from 0. */
	u64 posted, acknowledged;
	u64 paid, granted; /* pieces posted that used credit, and their limit */

	/* Receiving. */
	u64 arrived;
	u64 posted_again, credited; /* receives of paid pieces, and the number last sent to the peer */
};

void verbs_flow_begin(struct verbs_flow *flow, u32 window, u32 sends);

bool verbs_flow_may_send(const struct verbs_flow *flow, bool is_credit);

/* The number of the piece, which is posted now. */
u64 verbs_flow_send(struct verbs_flow *flow, bool is_credit);

/* The peer's count of receives posted again; false if the peer cannot have posted them. */
bool verbs_flow_grant(struct verbs_flow *flow, u64 posted_again);

bool verbs_flow_owes_credit(const struct verbs_flow *flow);

/* The count to send with a message; records it as sent. */
u64 verbs_flow_take_credit(struct verbs_flow *flow);
