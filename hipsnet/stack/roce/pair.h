/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a queue pair. Private to this folder.
 *
 * PSNs are 64-bit numbers that begin at PSN_START and never wrap. The wire carries the lower 24 bits of their
 * sum with the connection's first PSN.
 */
#pragma once

#include <stdbool.h>

#include "cable/pacer.h"
#include "roce/dcqcn.h"
#include "roce/memory.h"
#include "roce/packet.h"
#include "roce/rc.h"
#include "wire/types.h"

#define PSN_MASK     0xffffffU
#define PSN_START    (1ULL << 24)
#define HEADER_BYTES (ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + BTH_BYTES)

/* AETH syndromes: IBTA tables 43 to 46. */
enum {
	SYNDROME_KIND = 0x60,
	SYNDROME_VALUE = 0x1f,
	SYNDROME_ACK = 0x00,
	SYNDROME_RNR = 0x20,
	SYNDROME_NAK = 0x60,
	CREDITS_UNKNOWN = 0x1f, /* value of an ACK without credits */
	NAK_SEQUENCE = 0,
	NAK_INVALID_REQUEST = 1,
	NAK_REMOTE_ACCESS = 2,
	NAK_OPERATIONAL = 3,
};

/* A posted message. Its packets have the PSNs from `first` on. */
struct message {
	u64 id;
	const u8 *data;
	u64 remote_address;
	u64 first;
	u32 packets, bytes;
	u32 remote_key, immediate;
	bool is_write, has_immediate;
};

struct receive {
	u64 id;
	u8 *buffer;
	u32 bytes;
};

/*
 * Messages and PSNs are completed, in flight, or to be sent, in this order. Message counts begin at 0;
 * masked, they are indices of the ring.
 *
 *   oldest ... current ... posted      messages
 *   acked  ... next    ... end         PSNs; `sent` is one past the highest ever sent
 */
struct requester {
	struct message *ring;
	u32 mask, unpolled;
	u64 oldest, current, posted;
	u64 acked, next, sent, end;
	u64 credit_limit; /* messages that consume a receive wait from this count on */
	u64 timer_ns;     /* when the oldest packet in flight counts as lost; RC_NEVER: none in flight */
	u64 resume_ns;    /* after a NAK: nothing is sent before this time */
	u32 timeouts, rnr_naks, sequence_naks; /* since the last progress */
};

enum response { RESPONSE_NONE, RESPONSE_ACK, RESPONSE_NAK };

struct responder {
	struct receive *ring;
	u32 mask, unpolled;
	u64 oldest, posted;
	u64 expected; /* PSN */
	u32 msn;      /* messages completed */
	enum response response;
	u64 ack_at_ns; /* latest time for the pending ACK */
	u8 syndrome;   /* of the pending NAK */
	u8 fatal;      /* syndrome of the NAK that ended the connection; 0: none */
	bool nak_sent;
	u64 gap; /* if nak_sent: the last PSN received out of order */
	bool credits_ran_out;
	/* The message being received. */
	u32 in_message; /* PART_SEND, PART_WRITE or 0 */
	u32 key, left, done;
	u64 address;
	/* Congestion notification. */
	bool cnp_due;
	u64 cnp_after_ns;
};

struct rc {
	struct rc_config config;
	struct regions *regions;
	struct endpoint *endpoint;
	enum rc_state state;
	u32 qpn, mtu, mtu_shift;
	u32 ack_mask;            /* an ACK is requested if PSN & ack_mask is 0 */
	u8 header[HEADER_BYTES]; /* template of every packet's headers */
	u32 ip_sum;              /* IPv4 checksum of the template, without length and type of service */
	struct requester requester;
	struct responder responder;
	struct pacer pacer;
	struct dcqcn dcqcn;
	u64 cnp_ns; /* least time between two CNPs */
	struct rc_completion *completions;
	u32 completions_mask, completions_head, completions_tail;
	struct rc_counters counters;
};

static inline u32 psn_on_wire(u32 first, u64 psn)
{
	return (first + (u32)psn) & PSN_MASK;
}

/* The signed distance of two PSNs of the wire, modulo 2^24. */
static inline int psn_distance(u32 psn, u32 from)
{
	return (int)((psn - from) << 8) >> 8;
}

/* roce/requester.c */
void requester_take_aeth(struct rc *rc, const struct packet *packet, u64 now_ns);
void requester_take_cnp(struct rc *rc, u64 now_ns);
bool requester_may_send(const struct rc *rc);
u32 requester_transmit(struct rc *rc, const struct span *out, u32 spans, u64 now_ns);
void requester_check_timer(struct rc *rc, u64 now_ns);
void requester_flush(struct rc *rc);

/* roce/responder.c */
void responder_take(struct rc *rc, const struct span *frame, const struct packet *packet);
void responder_take_mark(struct rc *rc, u64 now_ns);
u32 responder_transmit(struct rc *rc, const struct span *out, u32 spans);
void responder_flush(struct rc *rc);

/* roce/rc.c */
void rc_complete(struct rc *rc, const struct rc_completion *completion);
void rc_fail(struct rc *rc);
/* False if the pair accepts no packets in its state. */
bool rc_receive(struct rc *rc, const struct span *frame, const struct packet *packet, u64 now_ns);

/* roce/build.c */
struct draft {
	u8 opcode;
	bool ack_request, becn;
	u8 tos;
	u32 psn;
	const struct reth *reth;
	const struct aeth *aeth;
	const u32 *immediate;
	const u8 *payload; /* NULL for bytes of 0 */
	u32 bytes;
};
void build_header(struct rc *rc);
u32 build_frame(const struct rc *rc, const struct draft *draft, const struct span *out, u32 spans);
