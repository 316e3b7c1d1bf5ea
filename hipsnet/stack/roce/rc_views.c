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

u32 rc_posted(const struct rc *rc)
{
	return (u32)(rc->requester.posted - rc->requester.oldest);
}

enum rc_status rc_refused(const struct rc *rc)
{
	switch (rc->responder.fatal) {
	case 0:
		return RC_OK;
	case SYNDROME_NAK | NAK_REMOTE_ACCESS:
		return RC_REMOTE_ACCESS;
	default:
		return RC_REMOTE_INVALID;
	}
}

const char *rc_words(u32 status)
{
	static const char *const words[RC_STATUSES] = {
		[RC_OK] = "done",
		[RC_FLUSHED] = "cancelled after an earlier error",
		[RC_RETRY_EXCEEDED] = "it does not answer (retries exceeded)",
		[RC_SEQUENCE_RETRY_EXCEEDED] =
			"it answers, but one packet never arrives there (retries exceeded): "
			"is the MTU of a port or switch on the path smaller than at both ends?",
		[RC_RNR_RETRY_EXCEEDED] = "it has posted no receive (RNR retries exceeded)",
		[RC_REMOTE_ACCESS] = "it refuses the write: no such region, or beyond its end",
		[RC_REMOTE_INVALID] = "it does not support the request",
		[RC_REMOTE_OPERATIONAL] = "it cannot continue, for an internal reason",
		[RC_LOCAL_LENGTH] = "its message is longer than the receive posted for it",
	};

	return words[status];
}

const struct rc_counters *rc_counters(const struct rc *rc)
{
	return &rc->counters;
}
