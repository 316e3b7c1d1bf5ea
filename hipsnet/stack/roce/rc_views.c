// SPDX-License-Identifier: Apache-2.0
/* Read access to a queue pair. */
#include "roce/pair.h"

u32 rc_qpn(const struct rc *rc)
{
	return rc->qpn;
}

enum rc_state rc_state(const struct rc *rc)
{
	return rc->state;
}

u32 rc_frame_max(const struct rc *rc)
{
	return RC_FRAME_MAX - 4096 + rc->mtu;
}

u32 rc_unacknowledged(const struct rc *rc)
{
	return (u32)(rc->requester.next - rc->requester.acked);
}

const struct rc_counters *rc_counters(const struct rc *rc)
{
	return &rc->counters;
}
