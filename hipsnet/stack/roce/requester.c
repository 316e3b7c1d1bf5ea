// SPDX-License-Identifier: Apache-2.0
/*
 * The sending side of a queue pair: IBTA volume 1, section 9.7.2 and on.
 *
 * Packets are sent in order, at most a window of them without an ACK. After a NAK or a time-out all packets
 * from the lost one on are sent again (go-back-N). An ACK acknowledges all packets up to its own.
 */
#include <string.h>

#include "roce/pair.h"

/* Credit codes of the AETH: 0, 1, then each power of two and the mean of it and the next. IBTA table 44. */
static u32 credits_of(u32 code)
{
	if (code < 2)
		return code;
	return code & 1 ? 3U << (code / 2 - 1) : 1U << (code / 2);
}

/* The wait that an RNR NAK's timer code requests, in units of 10 us. IBTA table 45. */
static const u32 RNR_WAIT[32] = {
	65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
	256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static void complete_oldest(struct rc *rc, u32 status)
{
	struct requester *side = &rc->requester;
	const struct message *message = &side->ring[side->oldest & side->mask];
	struct rc_completion completion = {.id = message->id, .kind = RC_SENT, .status = status};

	side->oldest++;
	side->unpolled++;
	rc_complete(rc, &completion);
}

void requester_flush(struct rc *rc)
{
	struct requester *side = &rc->requester;

	while (side->oldest != side->posted)
		complete_oldest(rc, RC_FLUSHED);
	side->current = side->oldest;
	side->acked = side->next = side->sent = side->end;
	side->timer_ns = RC_NEVER;
}

/* What was sent once keeps its PSN, also if it is to be sent again. */
static bool is_started(const struct requester *side, u64 at)
{
	return side->ring[at & side->mask].first < side->sent;
}

u64 rc_started_bytes(const struct rc *rc)
{
	const struct requester *side = &rc->requester;
	u64 bytes = 0;

	for (u64 at = side->oldest; at != side->posted && is_started(side, at); at++)
		if (side->ring[at & side->mask].is_write)
			bytes += side->ring[at & side->mask].bytes;
	return bytes;
}

void rc_drop_writes(struct rc *rc, u8 *copies)
{
	struct requester *side = &rc->requester;
	u64 kept = side->oldest;

	for (; kept != side->posted && is_started(side, kept); kept++) {
		struct message *message = &side->ring[kept & side->mask];

		if (!message->is_write)
			continue;
		memcpy(copies, message->data, message->bytes);
		message->data = copies;
		copies += message->bytes;
	}
	if (kept == side->posted)
		return;
	side->end = side->ring[kept & side->mask].first;
	for (u64 at = kept; at != side->posted; at++) {
		struct message message = side->ring[at & side->mask];

		if (message.is_write)
			continue;
		message.first = side->end;
		side->end += message.packets;
		side->ring[kept++ & side->mask] = message;
	}
	side->posted = kept;
}

static void fail(struct rc *rc, enum rc_status status)
{
	if (rc->requester.oldest != rc->requester.posted)
		complete_oldest(rc, status);
	rc_fail(rc);
}

static void go_back(struct rc *rc)
{
	struct requester *side = &rc->requester;

	side->next = side->acked;
	side->current = side->oldest;
	side->timer_ns = RC_NEVER;
}

/* The peer has all packets before `psn`. */
static void acknowledge(struct rc *rc, u64 psn, u64 now_ns)
{
	struct requester *side = &rc->requester;

	if (psn == side->acked)
		return;
	side->acked = psn;
	side->timeouts = side->rnr_naks = side->sequence_naks = 0;
	while (side->oldest != side->posted) {
		const struct message *message = &side->ring[side->oldest & side->mask];

		if (message->first + message->packets > psn)
			break;
		if (side->current == side->oldest)
			side->current++;
		complete_oldest(rc, RC_OK);
	}
	/* A late ACK, after this side has gone back already. */
	if (side->next < psn) {
		side->next = psn;
		side->current = side->oldest;
	}
	side->timer_ns = side->next > psn ? now_ns + rc->config.timeout_ns : RC_NEVER;
}

static void take_credits(struct rc *rc, const struct aeth *aeth)
{
	struct requester *side = &rc->requester;
	u32 code = aeth->syndrome & SYNDROME_VALUE;

	if (!rc->config.credits || code == CREDITS_UNKNOWN) {
		side->credit_limit = RC_NEVER;
		return;
	}
	int completed = psn_distance(aeth->msn, (u32)side->oldest & PSN_MASK);

	/* One message more than the peer has receives: if it posts none meanwhile, it sends an RNR NAK. */
	side->credit_limit = side->oldest + (u64)(long long)completed + credits_of(code) + 1;
}

static void take_rnr(struct rc *rc, u32 timer, u64 now_ns)
{
	struct requester *side = &rc->requester;

	rc->counters.rx_nak_rnr++;
	if (rc->config.rnr_retry != RC_NO_LIMIT && side->rnr_naks++ >= rc->config.rnr_retry) {
		fail(rc, RC_RNR_RETRY_EXCEEDED);
		return;
	}
	go_back(rc);
	side->resume_ns = now_ns + RNR_WAIT[timer] * 10000ULL;
}

/*
 * The first packet that is not acknowledged was lost. The first repetition leaves at once. Further ones wait,
 * each twice as long as the one before and together less than a time-out: that lets a burst of losses pass.
 * A packet that is longer than a link on the path carries is lost every time, while shorter ones behind it
 * arrive and cause a NAK each time: without a limit this would never end.
 */
static void take_sequence_nak(struct rc *rc, u64 now_ns)
{
	struct requester *side = &rc->requester;

	rc->counters.rx_nak_sequence++;
	if (side->next == side->acked)
		return; /* a duplicate: nothing was sent since the NAK before */
	if (side->sequence_naks >= rc->config.retry_count) {
		fail(rc, RC_SEQUENCE_RETRY_EXCEEDED);
		return;
	}
	go_back(rc);
	if (side->sequence_naks)
		side->resume_ns =
			now_ns + (rc->config.timeout_ns >> (rc->config.retry_count - side->sequence_naks));
	side->sequence_naks++;
}

static void take_nak(struct rc *rc, u32 code, u64 now_ns)
{
	switch (code) {
	case NAK_SEQUENCE:
		take_sequence_nak(rc, now_ns);
		break;
	case NAK_INVALID_REQUEST:
		rc->counters.rx_nak_invalid++;
		fail(rc, RC_REMOTE_INVALID);
		break;
	case NAK_REMOTE_ACCESS:
		rc->counters.rx_nak_access++;
		fail(rc, RC_REMOTE_ACCESS);
		break;
	default:
		fail(rc, RC_REMOTE_OPERATIONAL);
	}
}

void requester_take_aeth(struct rc *rc, const struct packet *packet, u64 now_ns)
{
	struct requester *side = &rc->requester;
	u32 kind = packet->aeth.syndrome & SYNDROME_KIND, value = packet->aeth.syndrome & SYNDROME_VALUE;
	int distance = psn_distance(packet->bth.psn, psn_on_wire(rc->config.send_psn, side->acked));
	u64 psn = (u64)((long long)side->acked + distance) + (kind == SYNDROME_ACK); /* first one missing */

	if (distance < -(kind == SYNDROME_ACK) || psn > side->sent || (kind && psn == side->sent)) {
		rc->counters.rx_stale_acks++;
		return;
	}
	acknowledge(rc, psn, now_ns);
	if (kind == SYNDROME_ACK) {
		rc->counters.rx_acks++;
		take_credits(rc, &packet->aeth);
	} else if (kind == SYNDROME_RNR) {
		take_rnr(rc, value, now_ns);
	} else if (kind == SYNDROME_NAK) {
		take_nak(rc, value, now_ns);
	}
}

void requester_take_cnp(struct rc *rc, u64 now_ns)
{
	rc->counters.rx_cnps++;
	if (!rc->dcqcn.port_bps)
		return;
	dcqcn_advance(&rc->dcqcn, now_ns);
	dcqcn_cut(&rc->dcqcn, now_ns);
	pacer_set_rate(&rc->pacer, rc->dcqcn.current_bps);
}

void requester_check_timer(struct rc *rc, u64 now_ns)
{
	struct requester *side = &rc->requester;

	if (now_ns < side->timer_ns)
		return;
	rc->counters.timeouts++;
	if (side->timeouts++ >= rc->config.retry_count)
		fail(rc, RC_RETRY_EXCEEDED);
	else
		go_back(rc);
}

/* Whether there is a packet to send that window and credits permit, regardless of timers and rate. */
bool requester_may_send(const struct rc *rc)
{
	const struct requester *side = &rc->requester;

	if (side->next >= side->end || side->next - side->acked >= rc->config.window)
		return false;
	const struct message *message = &side->ring[side->current & side->mask];

	return side->current < side->credit_limit || (message->is_write && !message->has_immediate);
}

static u8 opcode_of(const struct message *message, bool first, bool last)
{
	u8 base = message->is_write ? OP_WRITE_FIRST : OP_SEND_FIRST;

	if (!last)
		return base + (first ? 0 : OP_SEND_MIDDLE);
	return base + (first ? OP_SEND_ONLY : OP_SEND_LAST) + message->has_immediate;
}

/* Accounts for the packet that was built, and advances to the next. */
static void sent(struct rc *rc, u32 payload, u32 frame, bool last, u64 now_ns)
{
	struct requester *side = &rc->requester;

	rc->counters.tx_packets++;
	rc->counters.tx_bytes += payload;
	if (side->next < side->sent)
		rc->counters.repeated++;
	side->next++;
	side->current += last;
	if (side->next > side->sent)
		side->sent = side->next;
	side->timer_ns = now_ns + (rc->config.timeout_ns << side->timeouts);
	if (!rc->config.rate_bps)
		return;
	pacer_sent(&rc->pacer, frame, now_ns);
	if (rc->dcqcn.port_bps) {
		u64 before = rc->dcqcn.current_bps;

		dcqcn_sent(&rc->dcqcn, frame);
		if (rc->dcqcn.current_bps != before)
			pacer_set_rate(&rc->pacer, rc->dcqcn.current_bps);
	}
}

static bool is_time(struct rc *rc, u64 now_ns)
{
	if (now_ns < rc->requester.resume_ns)
		return false;
	if (rc->dcqcn.port_bps && now_ns >= dcqcn_next_ns(&rc->dcqcn)) {
		dcqcn_advance(&rc->dcqcn, now_ns);
		pacer_set_rate(&rc->pacer, rc->dcqcn.current_bps);
	}
	return pacer_may_send(&rc->pacer, now_ns);
}

/*
 * An ACK is requested at the end of a message, every ack_mask + 1 packets, when the window is full, and if
 * pacing delays the next packet for so long that this one would time out.
 */
static bool requests_ack(const struct rc *rc, bool last)
{
	const struct requester *side = &rc->requester;
	u64 next = side->next + 1, gap_ns = rc->pacer.byte_ns * rc->mtu >> PACER_FRACTION_BITS;

	return last || next - side->acked == rc->config.window || !(next & rc->ack_mask) ||
	       gap_ns > rc->config.timeout_ns / 4;
}

u32 requester_transmit(struct rc *rc, const struct span *out, u32 spans, u64 now_ns)
{
	struct requester *side = &rc->requester;

	if (!requester_may_send(rc) || !is_time(rc, now_ns))
		return 0;
	const struct message *message = &side->ring[side->current & side->mask];
	u32 index = (u32)(side->next - message->first), offset = index << rc->mtu_shift;
	u32 left = message->bytes - offset, payload = left < rc->mtu ? left : rc->mtu;
	bool first = !index, last = index + 1 == message->packets;
	struct reth reth = {message->remote_address, message->remote_key, message->bytes};
	struct draft draft = {
		.opcode = opcode_of(message, first, last),
		.ack_request = requests_ack(rc, last),
		.tos = (u8)(rc->config.dscp << 2 | (rc->dcqcn.port_bps ? ECN_CAPABLE_0 : ECN_NOT_CAPABLE)),
		.psn = psn_on_wire(rc->config.send_psn, side->next),
		.reth = first && message->is_write ? &reth : NULL,
		.immediate = last && message->has_immediate ? &message->immediate : NULL,
		.payload = message->data + offset,
		.bytes = payload,
	};
	u32 frame = build_frame(rc, &draft, out, spans);

	if (frame)
		sent(rc, payload, frame, last, now_ns);
	return frame;
}
