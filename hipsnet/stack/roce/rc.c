// SPDX-License-Identifier: Apache-2.0
/* The life cycle of a queue pair: create, connect, post, transmit, poll, fail. */
#include <stdlib.h>

#include "roce/endpoint_pairs.h"
#include "roce/pair.h"

#define PACKETS_PER_ACK 64   /* at most; fewer if the window is shorter than twice that */
#define WINDOW_MAX      4096 /* packets; PSNs would permit more */
#define DEPTH_MAX       65536

static bool is_power_of_two(u32 value)
{
	return value && !(value & (value - 1));
}

static bool allocate(struct rc *rc, u32 send_depth, u32 receive_depth)
{
	u32 completions = 1;

	while (completions < send_depth + receive_depth)
		completions *= 2;
	rc->requester.ring = calloc(send_depth, sizeof(*rc->requester.ring));
	rc->responder.ring = calloc(receive_depth, sizeof(*rc->responder.ring));
	rc->completions = calloc(completions, sizeof(*rc->completions));
	rc->requester.mask = send_depth - 1;
	rc->responder.mask = receive_depth - 1;
	rc->completions_mask = completions - 1;
	return rc->requester.ring && rc->responder.ring && rc->completions;
}

struct rc *rc_create(struct endpoint *endpoint, u32 send_depth, u32 receive_depth)
{
	if (!is_power_of_two(send_depth) || !is_power_of_two(receive_depth) || send_depth > DEPTH_MAX ||
	    receive_depth > DEPTH_MAX)
		return NULL;
	struct rc *rc = calloc(1, sizeof(*rc));

	if (!rc)
		return NULL;
	rc->endpoint = endpoint;
	rc->regions = endpoint_regions(endpoint);
	if (!allocate(rc, send_depth, receive_depth) || !endpoint_add_pair(endpoint, rc, &rc->qpn)) {
		rc_destroy(rc);
		return NULL;
	}
	return rc;
}

void rc_destroy(struct rc *rc)
{
	endpoint_remove_pair(rc->endpoint, rc);
	free(rc->requester.ring);
	free(rc->responder.ring);
	free(rc->completions);
	free(rc);
}

void rc_defaults(struct rc_config *config, u64 rate_bps)
{
	*config = (struct rc_config){
		.path_mtu = 1024,
		.ttl = 64,
		.cnp_dscp = 48,
		.retry_count = 7,
		.rnr_retry = RC_NO_LIMIT,
		.min_rnr_timer = 12,
		.window = 128,
		.timeout_ns = 67108864, /* verbs' 14: 4.096 us << 14 */
		.rate_bps = rate_bps,
		.burst_ns = 20000, /* about a turn of a busy poll loop */
	};
}

static bool is_sound(const struct rc_config *config)
{
	return is_power_of_two(config->path_mtu) && config->path_mtu >= 256 && config->path_mtu <= 4096 &&
	       config->window >= 1 && config->window <= WINDOW_MAX && config->peer_qpn <= PSN_MASK &&
	       config->send_psn <= PSN_MASK && config->receive_psn <= PSN_MASK && config->timeout_ns &&
	       config->timeout_ns <= 1ULL << 50 && config->retry_count <= 7 && config->rnr_retry <= 7 &&
	       config->min_rnr_timer <= 31 && config->dscp <= 63 && config->cnp_dscp <= 63 &&
	       (config->rate_bps || !config->congestion_control);
}

bool rc_connect(struct rc *rc, const struct rc_config *config, u64 now_ns)
{
	u32 packets_per_ack = PACKETS_PER_ACK;

	if (rc->state != RC_IDLE || !is_sound(config))
		return false;
	rc->config = *config;
	if (!rc->config.source_port)
		rc->config.source_port = (u16)(0xc000 | ((rc->qpn ^ config->peer_qpn * 5) & 0x3fff));
	while (packets_per_ack > 1 && packets_per_ack * 2 > config->window)
		packets_per_ack /= 2;
	rc->ack_mask = packets_per_ack - 1;
	rc->mtu = config->path_mtu;
	rc->mtu_shift = (u32)__builtin_ctz(rc->mtu);
	build_header(rc);
	struct requester *side = &rc->requester;

	side->acked = side->next = side->sent = side->end = rc->responder.expected = PSN_START;
	side->timer_ns = side->credit_limit = RC_NEVER;
	pacer_init(&rc->pacer, config->rate_bps, config->burst_ns);
	rc->cnp_ns = dcqcn_unit_ns(config->rate_bps, rc->mtu);
	if (config->congestion_control)
		dcqcn_init(&rc->dcqcn, config->rate_bps, rc->cnp_ns, now_ns);
	rc->state = RC_CONNECTED;
	return true;
}

static bool post(struct rc *rc, struct message message)
{
	struct requester *side = &rc->requester;

	if (rc->state != RC_CONNECTED || message.bytes > RC_MESSAGE_MAX ||
	    side->posted - side->oldest + side->unpolled > side->mask)
		return false;
	message.first = side->end;
	message.packets = message.bytes ? (message.bytes + rc->mtu - 1) >> rc->mtu_shift : 1;
	side->ring[side->posted++ & side->mask] = message;
	side->end += message.packets;
	return true;
}

bool rc_post_send(struct rc *rc, u64 id, const void *data, u32 bytes)
{
	return post(rc, (struct message){.id = id, .data = data, .bytes = bytes});
}

bool rc_post_send_immediate(struct rc *rc, u64 id, const void *data, u32 bytes, u32 immediate)
{
	return post(rc, (struct message){.id = id,
					 .data = data,
					 .bytes = bytes,
					 .immediate = immediate,
					 .has_immediate = true});
}

bool rc_post_write(struct rc *rc, u64 id, const void *data, u32 bytes, u64 remote_address, u32 remote_key)
{
	return post(rc, (struct message){.id = id,
					 .data = data,
					 .bytes = bytes,
					 .is_write = true,
					 .remote_address = remote_address,
					 .remote_key = remote_key});
}

bool rc_post_write_immediate(struct rc *rc, u64 id, const void *data, u32 bytes, u64 remote_address,
			     u32 remote_key, u32 immediate)
{
	return post(rc, (struct message){.id = id,
					 .data = data,
					 .bytes = bytes,
					 .is_write = true,
					 .remote_address = remote_address,
					 .remote_key = remote_key,
					 .immediate = immediate,
					 .has_immediate = true});
}

bool rc_post_receive(struct rc *rc, u64 id, void *buffer, u32 bytes)
{
	struct responder *side = &rc->responder;

	if (rc->state == RC_ERROR || side->posted - side->oldest + side->unpolled > side->mask)
		return false;
	side->ring[side->posted++ & side->mask] = (struct receive){id, buffer, bytes};
	/* A peer that honours credits and has none left waits for this ACK. */
	if (side->credits_ran_out && side->response == RESPONSE_NONE) {
		side->credits_ran_out = false;
		side->response = RESPONSE_ACK;
	}
	return true;
}

void rc_complete(struct rc *rc, const struct rc_completion *completion)
{
	rc->completions[rc->completions_head++ & rc->completions_mask] = *completion;
}

bool rc_poll_completion(struct rc *rc, struct rc_completion *completion)
{
	if (rc->completions_tail == rc->completions_head)
		return false;
	*completion = rc->completions[rc->completions_tail++ & rc->completions_mask];
	if (completion->kind == RC_SENT)
		rc->requester.unpolled--;
	else
		rc->responder.unpolled--;
	return true;
}

void rc_fail(struct rc *rc)
{
	rc->state = RC_ERROR;
	requester_flush(rc);
	responder_flush(rc);
}

void rc_abort(struct rc *rc)
{
	if (rc->state != RC_ERROR)
		rc_fail(rc);
}

/* The ACK of a whole message may wait; one within a message must not, or the sender's window runs out. */
static void take_request(struct rc *rc, const struct span *frame, const struct packet *packet, u64 now_ns)
{
	bool was_due = rc->responder.response != RESPONSE_NONE;
	u64 delay_ns = packet->parts & PART_SEND ? rc->config.send_ack_delay_ns : rc->config.ack_delay_ns;

	if (!(packet->parts & PART_LAST))
		delay_ns = 0;
	responder_take(rc, frame, packet);
	if (!was_due || now_ns + delay_ns < rc->responder.ack_at_ns)
		rc->responder.ack_at_ns = now_ns + delay_ns;
}

bool rc_receive(struct rc *rc, const struct span *frame, const struct packet *packet, u64 now_ns)
{
	/* Repeat the fatal NAK: the first may have been lost. */
	if (rc->state == RC_ERROR && !(rc->responder.fatal && packet->parts & PART_REQUEST))
		return false;
	if (packet->ip.ecn == ECN_CONGESTED)
		responder_take_mark(rc, now_ns);
	if (packet->parts & PART_AETH)
		requester_take_aeth(rc, packet, now_ns);
	else if (packet->parts & PART_CNP)
		requester_take_cnp(rc, now_ns);
	else
		take_request(rc, frame, packet, now_ns);
	return true;
}

/* When the responder has a frame to send: RC_NEVER if it has none. */
static u64 response_due(const struct rc *rc)
{
	const struct responder *side = &rc->responder;

	if (side->cnp_due || side->response == RESPONSE_NAK)
		return 0;
	return side->response == RESPONSE_ACK ? side->ack_at_ns : RC_NEVER;
}

/* Directly behind the last data frame an ACK costs no extra wake-up of the peer and no timer here. */
static void send_ack_along(struct rc *rc)
{
	if (rc->responder.response == RESPONSE_ACK && !requester_may_send(rc))
		rc->responder.ack_at_ns = 0;
}

u32 rc_transmit(struct rc *rc, const struct span *out, u32 spans, u64 now_ns)
{
	if (rc->state == RC_IDLE)
		return 0;
	requester_check_timer(rc, now_ns);
	u32 bytes = response_due(rc) <= now_ns ? responder_transmit(rc, out, spans) : 0;

	if (bytes)
		return bytes;
	bytes = requester_transmit(rc, out, spans, now_ns);
	if (bytes)
		send_ack_along(rc);
	return bytes;
}

void rc_flush(struct rc *rc, u64 before_ns)
{
	if (rc->responder.ack_at_ns < before_ns)
		rc->responder.ack_at_ns = 0;
}

bool rc_is_owing(const struct rc *rc)
{
	return rc->state != RC_IDLE && (response_due(rc) != RC_NEVER || requester_may_send(rc));
}

u64 rc_next_deadline(const struct rc *rc)
{
	const struct requester *side = &rc->requester;
	u64 send_at = RC_NEVER, due = response_due(rc);

	if (rc->state == RC_IDLE)
		return RC_NEVER;
	if (requester_may_send(rc))
		send_at = side->resume_ns > rc->pacer.next_ns ? side->resume_ns : rc->pacer.next_ns;
	if (due < send_at)
		send_at = due;
	return send_at < side->timer_ns ? send_at : side->timer_ns;
}
