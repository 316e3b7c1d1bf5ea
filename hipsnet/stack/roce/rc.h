/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue pair of the reliable connection service (IBTA volume 1, chapter 9) over RoCEv2.
 *
 * The code is sans-I/O: sockets and clocks belong to the caller, time is an argument, and no memory is
 * allocated after rc_create(). The caller passes every frame that arrives to endpoint_receive()
 * (roce/endpoint.h), and calls rc_transmit() for frames to send when rc_next_deadline() has come. Data is
 * copied once on each side: from the posted memory into the frame, together with the ICRC, and from the frame
 * into its target.
 *
 * One thread at a time may use an endpoint and its pairs. Addresses and ports are in host order. Times are
 * nanoseconds of any monotonic clock. The Python bindings read this file (core.py): it may contain
 * declarations and macros that are numbers, nothing else.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define RC_NEVER       0xffffffffffffffffULL
#define RC_HEADER_MAX  78   /* bytes before the payload, at most */
#define RC_FRAME_MAX   4178 /* the longest frame: 4096 bytes of payload */
#define RC_MESSAGE_MAX 0x40000000
#define RC_NO_LIMIT    7 /* as rnr_retry: unlimited */

struct endpoint;
struct rc;

struct rc_config {
	u8 local_mac[6], peer_mac[6];
	u32 local_ip, peer_ip;
	u32 peer_qpn;
	u32 send_psn, receive_psn; /* the first PSN of each direction */
	u16 source_port;           /* of UDP; selects among paths of equal cost; 0: derived from the QPNs */
	u16 path_mtu;              /* payload of a packet: 256, 512, 1024, 2048 or 4096 */
	u8 ttl;
	u8 dscp, cnp_dscp; /* of all packets but CNPs; of CNPs */
	u8 retry_count;    /* retransmissions of a packet after time-outs, and after sequence NAKs; 0 to 7 */
	u8 rnr_retry;      /* consecutive RNR NAKs tolerated; 0 to 6, or RC_NO_LIMIT */
	u8 min_rnr_timer;  /* code of the wait that our RNR NAKs request: IBTA table 45; 12 is 0.64 ms */
	bool credits;      /* end-to-end credits: report our posted receives, honour the peer's */
	bool congestion_control; /* DCQCN: mark packets as ECN capable, slow down on CNPs; needs rate_bps */
	u32 window;              /* packets in flight, at most */
	u64 timeout_ns;          /* ACK time-out, from the last packet on; doubles with every time-out */
	/* How long the ACK of a write, or of a SEND, may wait for others, or for frames to go with it. */
	u64 ack_delay_ns, send_ack_delay_ns;
	u64 rate_bps; /* of frames with their Ethernet header, as HTB counts; 0: no limit */
	u64 burst_ns; /* by which a delayed sender may exceed the rate */
};

enum rc_kind {
	RC_SENT,     /* a posted message: the peer has acknowledged all of it */
	RC_RECEIVED, /* a message of the peer, in the oldest posted receive */
	RC_WRITTEN,  /* a write with immediate of the peer: consumes a receive, whose buffer is unused */
};

/* Status of a completion. With any status but RC_OK the pair is in the state RC_ERROR. */
enum rc_status {
	RC_OK,
	RC_FLUSHED,                 /* cancelled because of an earlier error */
	RC_RETRY_EXCEEDED,          /* the peer does not answer */
	RC_SEQUENCE_RETRY_EXCEEDED, /* the peer answers, but one packet never reaches it */
	RC_RNR_RETRY_EXCEEDED,      /* the peer has no receive posted */
	RC_REMOTE_ACCESS,           /* the peer refuses the key, or the range */
	RC_REMOTE_INVALID,          /* the peer refuses the request */
	RC_REMOTE_OPERATIONAL,      /* the peer cannot continue, for an internal reason */
	RC_LOCAL_LENGTH,            /* a message was longer than the receive posted for it */
	RC_STATUSES,
};

enum rc_state {
	RC_IDLE,      /* created: accepts posted receives */
	RC_CONNECTED, /* sends and receives */
	RC_ERROR,     /* failed or aborted: to be destroyed after its completions are polled */
};

struct rc_completion {
	u64 id; /* as it was posted */
	u32 kind, status;
	u32 bytes;     /* received or written */
	u32 immediate; /* host order */
	bool has_immediate;
};

struct rc_counters {
	u64 tx_packets, tx_bytes; /* payload, retransmissions included */
	u64 rx_packets, rx_bytes; /* payload, in sequence */
	u64 repeated;             /* retransmitted packets */
	u64 timeouts;
	u64 tx_acks, rx_acks;
	u64 tx_nak_sequence, rx_nak_sequence;
	u64 tx_nak_rnr, rx_nak_rnr;
	u64 tx_nak_access, rx_nak_access;   /* writes with a wrong key, or out of bounds */
	u64 tx_nak_invalid, rx_nak_invalid; /* requests that are not supported */
	u64 rx_duplicates, rx_out_of_order, rx_stale_acks;
	u64 rx_congested; /* packets with an ECN mark */
	u64 tx_cnps, rx_cnps;
};

/*
 * A new pair with queues for `send_depth` sends and `receive_depth` receives (powers of two). NULL if the
 * endpoint is full or memory is short. An entry of a queue is free again when its completion has been polled.
 */
struct rc *rc_create(struct endpoint *endpoint, u32 send_depth, u32 receive_depth);
void rc_destroy(struct rc *rc);

u32 rc_qpn(const struct rc *rc);
enum rc_state rc_state(const struct rc *rc);

/* Defaults for a port of this rate. Addresses, QPN and PSNs are left to the caller. */
void rc_defaults(struct rc_config *config, u64 rate_bps);

/* From RC_IDLE to RC_CONNECTED; false if a value of the configuration is out of range. */
bool rc_connect(struct rc *rc, const struct rc_config *config, u64 now_ns);

/*
 * Posts a message or a receive. Its memory must not change before the completion. False if the queue is full,
 * the message is longer than RC_MESSAGE_MAX, or the pair is not connected (for receives: has failed). For
 * writes with immediate a receive of 0 bytes is enough.
 */
bool rc_post_send(struct rc *rc, u64 id, const void *data, u32 bytes);
bool rc_post_send_immediate(struct rc *rc, u64 id, const void *data, u32 bytes, u32 immediate);
bool rc_post_write(struct rc *rc, u64 id, const void *data, u32 bytes, u64 remote_address, u32 remote_key);
bool rc_post_write_immediate(struct rc *rc, u64 id, const void *data, u32 bytes, u64 remote_address,
			     u32 remote_key, u32 immediate);
bool rc_post_receive(struct rc *rc, u64 id, void *buffer, u32 bytes);

/*
 * Builds the next frame, if one is due, in up to four buffers of rc_frame_max() bytes in total, the first of
 * which has at least RC_HEADER_MAX bytes. The buffers are filled in order. Returns the frame's length, 0 if
 * no frame is due now. Also handles time-outs.
 */
u32 rc_transmit(struct rc *rc, const struct span *out, u32 spans, u64 now_ns);

/* The longest frame that rc_transmit() will build. */
u32 rc_frame_max(const struct rc *rc);

/* When to call rc_transmit() next: 0 for now; RC_NEVER: not before a frame arrives or work is posted. */
u64 rc_next_deadline(const struct rc *rc);

/*
 * For a caller that will not poll for a while: rc_flush() makes an ACK that is due before `before_ns` due at
 * once; rc_is_owing() tells whether frames remain to be sent as soon as timers, rate and pauses permit.
 */
void rc_flush(struct rc *rc, u64 before_ns);
bool rc_is_owing(const struct rc *rc);

/*
 * Removes the posted writes of which no packet was sent. They do not complete. The others are sent from
 * `copies` from now on, of rc_started_bytes(), which the caller keeps as long as the pair.
 */
void rc_drop_writes(struct rc *rc, u8 *copies);
u64 rc_started_bytes(const struct rc *rc); /* of the writes that were started and not completed */

/* Takes the oldest completion; false if there is none. */
bool rc_poll_completion(struct rc *rc, struct rc_completion *completion);

/* Puts the pair into RC_ERROR: all posted work completes with RC_FLUSHED. */
void rc_abort(struct rc *rc);

u32 rc_unacknowledged(const struct rc *rc);     /* packets in flight */
u32 rc_posted(const struct rc *rc);             /* messages posted and not completed */
enum rc_status rc_refused(const struct rc *rc); /* why this side refused a request; RC_OK: it did not */
const char *rc_words(u32 status);               /* a status in words; their subject is the peer */
const struct rc_counters *rc_counters(const struct rc *rc);
