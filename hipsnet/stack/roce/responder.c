// SPDX-License-Identifier: Apache-2.0
/*
 * The receiving side of a queue pair: IBTA volume 1, section 9.7.1 and table 34.
 *
 * Only the packet that is expected next is accepted. A duplicate is acknowledged again. A packet after a gap
 * is answered with a NAK, once per gap.
 */
#include "roce/pair.h"

static void answer_ack(struct rc *rc)
{
	/* A pending NAK acknowledges the same packets. */
	if (rc->responder.response == RESPONSE_NONE)
		rc->responder.response = RESPONSE_ACK;
}

static void answer_nak(struct rc *rc, u8 syndrome)
{
	rc->responder.response = RESPONSE_NAK;
	rc->responder.syndrome = syndrome;
	rc->responder.nak_sent = true;
	rc->responder.gap = rc->responder.expected;
}

/* Refuses a request: NAKs it, and ends the connection. */
static void refuse(struct rc *rc, u32 code)
{
	u8 syndrome = (u8)(SYNDROME_NAK | code);

	answer_nak(rc, syndrome);
	rc->responder.fatal = syndrome;
	rc_fail(rc);
}

static u32 receives_left(const struct responder *side)
{
	return (u32)(side->posted - side->oldest);
}

static void complete_receive(struct rc *rc, struct rc_completion completion)
{
	struct responder *side = &rc->responder;

	completion.id = side->ring[side->oldest & side->mask].id;
	side->oldest++;
	side->unpolled++;
	rc_complete(rc, &completion);
}

void responder_flush(struct rc *rc)
{
	struct rc_completion completion = {.kind = RC_RECEIVED, .status = RC_FLUSHED};

	while (receives_left(&rc->responder))
		complete_receive(rc, completion);
}

/* A packet after a gap: packets before it were lost. */
static void take_early(struct rc *rc, u64 psn)
{
	struct responder *side = &rc->responder;
	/* The sender has gone back, but the missing packet was lost again: a new gap. */
	bool again = side->nak_sent && psn <= side->gap;

	rc->counters.rx_out_of_order++;
	if (!side->nak_sent || again)
		answer_nak(rc, SYNDROME_NAK | NAK_SEQUENCE);
	side->gap = psn;
}

/* Whether the packet continues the current message, or begins one if there is none. IBTA table 35. */
static bool in_sequence(const struct rc *rc, const struct packet *packet)
{
	u32 kind = packet->parts & (PART_SEND | PART_WRITE);

	return packet->parts & PART_FIRST ? !rc->responder.in_message : rc->responder.in_message == kind;
}

/* All packets but the last are full; the last one is not empty unless it is the only one. */
static bool length_holds(const struct rc *rc, const struct packet *packet)
{
	if (!(packet->parts & PART_LAST))
		return packet->payload == rc->mtu && !packet->bth.pad;
	return packet->payload <= rc->mtu && (packet->payload || packet->parts & PART_FIRST);
}

static void begin_message(struct rc *rc, const struct packet *packet)
{
	struct responder *side = &rc->responder;

	side->in_message = packet->parts & (PART_SEND | PART_WRITE);
	side->done = 0;
	if (side->in_message == PART_WRITE) {
		side->key = packet->reth.key;
		side->address = packet->reth.address;
		side->left = packet->reth.length;
	}
}

/* The target of a write's payload; false if the write was refused. */
static bool place_write(struct rc *rc, const struct packet *packet, u8 **to)
{
	struct responder *side = &rc->responder;
	bool last = packet->parts & PART_LAST;

	if (side->left < packet->payload || (side->left == packet->payload) != last) {
		refuse(rc, NAK_INVALID_REQUEST);
		return false;
	}
	if (rc->regions->discards)
		return true;
	/* Check the whole rest of the message with every packet: the key may have been deregistered
	 * meanwhile. */
	*to = side->left ? regions_find(rc->regions, side->key, side->address, side->left) : NULL;
	if (side->left && !*to) {
		refuse(rc, NAK_REMOTE_ACCESS);
		return false;
	}
	return true;
}

static bool place_send(struct rc *rc, const struct packet *packet, u8 **to)
{
	struct responder *side = &rc->responder;
	const struct receive *receive = &side->ring[side->oldest & side->mask];

	if (receive->bytes - side->done < packet->payload) {
		complete_receive(rc, (struct rc_completion){.kind = RC_RECEIVED, .status = RC_LOCAL_LENGTH});
		refuse(rc, NAK_INVALID_REQUEST);
		return false;
	}
	*to = receive->buffer + side->done;
	return true;
}

static void end_message(struct rc *rc, const struct packet *packet)
{
	struct responder *side = &rc->responder;
	bool written = side->in_message == PART_WRITE, has_immediate = packet->parts & PART_IMMEDIATE;

	side->in_message = 0;
	side->msn = (side->msn + 1) & PSN_MASK;
	if (written && !has_immediate)
		return;
	complete_receive(rc, (struct rc_completion){
				     .kind = written ? RC_WRITTEN : RC_RECEIVED,
				     .bytes = side->done,
				     .immediate = has_immediate ? packet->immediate : 0,
				     .has_immediate = has_immediate,
			     });
}

/* The packet that is expected next. */
static void take_next(struct rc *rc, const struct span *frame, const struct packet *packet)
{
	struct responder *side = &rc->responder;
	u32 takes_receive = PART_SEND | PART_IMMEDIATE;
	u8 *to = NULL;

	side->nak_sent = false;
	if (packet->parts & PART_UNSUPPORTED || !in_sequence(rc, packet) || !length_holds(rc, packet)) {
		refuse(rc, NAK_INVALID_REQUEST);
		return;
	}
	if (packet->parts & takes_receive && !receives_left(side)) {
		answer_nak(rc, SYNDROME_RNR | rc->config.min_rnr_timer);
		return;
	}
	if (packet->parts & PART_FIRST)
		begin_message(rc, packet);
	if (side->in_message == PART_WRITE ? !place_write(rc, packet, &to) : !place_send(rc, packet, &to))
		return;
	if (packet->payload && to)
		packet_copy_payload(frame, packet, to);
	side->address += packet->payload;
	side->left -= side->in_message == PART_WRITE ? packet->payload : 0;
	side->done += packet->payload;
	side->expected++;
	rc->counters.rx_packets++;
	rc->counters.rx_bytes += packet->payload;
	if (packet->parts & PART_LAST)
		end_message(rc, packet);
	/* A NAK that is still pending is obsolete. */
	if (side->response == RESPONSE_NAK)
		side->response = RESPONSE_ACK;
	if (packet->bth.ack_request)
		answer_ack(rc);
}

void responder_take(struct rc *rc, const struct span *frame, const struct packet *packet)
{
	struct responder *side = &rc->responder;
	int distance = psn_distance(packet->bth.psn, psn_on_wire(rc->config.receive_psn, side->expected));

	if (rc->state == RC_ERROR) {
		answer_nak(rc, side->fatal);
	} else if (distance < 0) {
		rc->counters.rx_duplicates++;
		answer_ack(rc);
	} else if (distance > 0) {
		take_early(rc, side->expected + (u32)distance);
	} else {
		take_next(rc, frame, packet);
	}
}

/* A packet with an ECN mark: notify the sender by a CNP, at most once per cnp_ns. */
void responder_take_mark(struct rc *rc, u64 now_ns)
{
	rc->counters.rx_congested++;
	if (now_ns < rc->responder.cnp_after_ns)
		return;
	rc->responder.cnp_due = true;
	rc->responder.cnp_after_ns = now_ns + rc->cnp_ns;
}

static void count_nak(struct rc_counters *counters, u8 syndrome)
{
	if ((syndrome & SYNDROME_KIND) == SYNDROME_RNR)
		counters->tx_nak_rnr++;
	else if (syndrome == (SYNDROME_NAK | NAK_SEQUENCE))
		counters->tx_nak_sequence++;
	else if (syndrome == (SYNDROME_NAK | NAK_REMOTE_ACCESS))
		counters->tx_nak_access++;
	else
		counters->tx_nak_invalid++;
}

/* The code of the largest number of credits that does not exceed `receives`. IBTA table 44. */
static u8 credit_code(u32 receives)
{
	if (receives < 2)
		return (u8)receives;
	u32 power = 31 - (u32)__builtin_clz(receives);
	u32 code = 2 * power + (receives >= 3U << (power - 1));

	return (u8)(code < CREDITS_UNKNOWN ? code : CREDITS_UNKNOWN - 1);
}

static u32 transmit_cnp(struct rc *rc, const struct span *out, u32 spans)
{
	struct draft draft = {
		.opcode = OP_CNP, .becn = true, .tos = (u8)(rc->config.cnp_dscp << 2), .bytes = CNP_BYTES};
	u32 frame = build_frame(rc, &draft, out, spans);

	if (frame) {
		rc->responder.cnp_due = false;
		rc->counters.tx_cnps++;
	}
	return frame;
}

u32 responder_transmit(struct rc *rc, const struct span *out, u32 spans)
{
	struct responder *side = &rc->responder;
	bool is_nak = side->response == RESPONSE_NAK;

	if (side->cnp_due)
		return transmit_cnp(rc, out, spans);
	if (side->response == RESPONSE_NONE)
		return 0;
	u32 receives = receives_left(side);
	u8 credits = rc->config.credits ? credit_code(receives) : CREDITS_UNKNOWN;
	struct aeth aeth = {.syndrome = is_nak ? side->syndrome : SYNDROME_ACK | credits, .msn = side->msn};
	struct draft draft = {
		.opcode = OP_ACKNOWLEDGE,
		.tos = (u8)(rc->config.dscp << 2),
		.psn = psn_on_wire(rc->config.receive_psn, side->expected - !is_nak),
		.aeth = &aeth,
	};
	u32 frame = build_frame(rc, &draft, out, spans);

	if (!frame)
		return 0;
	side->response = RESPONSE_NONE;
	side->credits_ran_out = rc->config.credits && !receives;
	if (is_nak)
		count_nak(&rc->counters, side->syndrome);
	else
		rc->counters.tx_acks++;
	return frame;
}
