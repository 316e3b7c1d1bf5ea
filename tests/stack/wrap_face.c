// SPDX-License-Identifier: Apache-2.0
/* Two pairs in memory that exchange empty messages as fast as they can, to count far. */
#include <string.h>

#include "roce/endpoint.h"
#include "roce/pair.h"

#define DEPTH 64

struct side {
	struct endpoint *endpoint;
	struct rc *rc;
};

u64 wrap_run(u64 messages, u32 psn, u32 msn, bool credits);

static void carry(const struct side *from, const struct side *to, u64 now_ns)
{
	static u8 frame[256];
	struct span out = {frame, sizeof(frame)};
	u32 bytes;

	while ((bytes = rc_transmit(from->rc, &out, 1, now_ns))) {
		struct span in = {frame, bytes};

		endpoint_receive(to->endpoint, &in, 1, now_ns);
	}
}

/* How many of the side's messages have completed well since the last time. */
static u64 count_good(const struct side *side)
{
	struct rc_completion completion;
	u64 good = 0;

	while (rc_poll_completion(side->rc, &completion))
		good += completion.status == RC_OK;
	return good;
}

static bool connect_side(struct side *side, const struct side *peer, u32 ip, u32 psn, bool credits)
{
	struct rc_config config;

	rc_defaults(&config, 0);
	config.local_ip = ip;
	config.peer_ip = 3 - ip;
	config.peer_qpn = rc_qpn(peer->rc);
	config.send_psn = config.receive_psn = psn;
	config.credits = credits;
	return rc_connect(side->rc, &config, 0);
}

/* As if so many messages had been sent from a to b already. */
static void have_sent(const struct side *a, const struct side *b, u32 messages)
{
	struct requester *sender = &a->rc->requester;

	sender->oldest = sender->current = sender->posted = messages;
	b->rc->responder.msn = messages;
}

/* Sends them from a to b; returns how many were received in order, and acknowledged. */
u64 wrap_run(u64 messages, u32 psn, u32 msn, bool credits)
{
	struct side a = {.endpoint = endpoint_create(1, 1, 1)}, b = {.endpoint = endpoint_create(1, 1, 2)};
	u64 sent = 0, received = 0, now_ns = 1000;

	a.rc = rc_create(a.endpoint, DEPTH, 1);
	b.rc = rc_create(b.endpoint, 1, DEPTH);
	if (!connect_side(&a, &b, 1, psn, credits) || !connect_side(&b, &a, 2, psn, credits))
		return 0;
	have_sent(&a, &b, msn);
	for (u64 posted = 0, turns = 0; sent < messages && turns < messages; turns++, now_ns += 1000) {
		while (rc_post_receive(b.rc, 0, NULL, 0))
			;
		while (posted < messages && rc_post_send(a.rc, 0, NULL, 0))
			posted++;
		carry(&a, &b, now_ns);
		carry(&b, &a, now_ns);
		received += count_good(&b);
		sent += count_good(&a);
	}
	bool clean = !rc_counters(a.rc)->repeated && !rc_counters(a.rc)->rx_stale_acks;

	endpoint_destroy(a.endpoint);
	endpoint_destroy(b.endpoint);
	return clean && sent == received ? sent : 0;
}
