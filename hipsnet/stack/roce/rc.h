/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue pair of a reliable connection: IBTA volume 1, chapter 9, over RoCEv2.
 *
 * No input or output happens here, no memory is allocated after rc_create(), and time is an argument: nothing
 * but the caller knows of sockets and clocks. The caller gives every frame that arrives to endpoint_receive()
 * (roce/endpoint.h), and asks with rc_transmit() for frames to send whenever rc_next_deadline() says that
 * there are some. Data is copied once on each side: from the memory that was posted right into the frame,
 * with its ICRC in the same pass, and from the frame right into the memory that it is for.
 *
 * One thread at a time may use an endpoint and its pairs. Addresses and ports are in host order, times are
 * nanoseconds of any clock that only goes forward. The Python face reads this file (core.py): declarations
 * only, and no macros but numbers.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define RC_NEVER       0xffffffffffffffffULL
#define RC_HEADER_MAX  78   /* what comes before the payload, of the longest packet */
#define RC_FRAME_MAX   4178 /* the longest frame: 4096 bytes of payload */
#define RC_MESSAGE_MAX 0x40000000
#define RC_NO_LIMIT    7 /* as rnr_retry: try for ever */

struct endpoint;
struct rc;

struct rc_config {
	u8 local_mac[6], peer_mac[6];
	u32 local_ip, peer_ip;
	u32 peer_qpn;
	u32 send_psn, receive_psn; /* the first PSN that we send, and that the peer sends */
	u16 source_port;           /* UDP's, by which paths of equal cost are chosen */
	u16 path_mtu;              /* payload of a packet: 256, 512, 1024, 2048 or 4096 */
	u8 ttl;
	u8 dscp, cnp_dscp; /* of everything but CNPs, and of those */
	u8 retry_count;    /* repetitions of a packet, after time-outs or sequence NAKs; 0 to 7 */
	u8 rnr_retry;      /* how often the peer may have no receive posted in a row; 0 to 7 = RC_NO_LIMIT */
	u8 min_rnr_timer;  /* code of the time that we ask the peer to wait: IBTA table 45; 12 is 0.64 ms */
	bool credits;      /* tell the peer how many receives are posted, and honour what it tells */
	bool congestion_control; /* DCQCN: say that we honour marks, slow down on CNPs; needs rate_bps */
	u32 window;              /* packets that may wait for an ACK */
	u64 timeout_ns;          /* without an ACK, from the last packet; doubled with every time out */
	u64 ack_delay_ns; /* how long a message's ACK may wait for others, or for frames to go with it */
	u64 rate_bps;     /* of frames with their Ethernet header, as HTB counts them too; 0: any */
	u64 burst_ns;     /* what a sender that was late may catch up with */
};

enum rc_kind {
	RC_SENT,     /* our message: the peer has all of it */
	RC_RECEIVED, /* a message of the peer, in the receive that was posted first */
	RC_WRITTEN,  /* a write of the peer with immediate: it took a receive, and left its buffer alone */
};

/* Of a completion: anything but RC_OK comes with the state RC_ERROR. */
enum rc_status {
	RC_OK,
	RC_FLUSHED,                 /* never begun, or given up, because of an earlier error */
	RC_RETRY_EXCEEDED,          /* the peer does not answer */
	RC_SEQUENCE_RETRY_EXCEEDED, /* the peer answers, but one packet never reaches it */
	RC_RNR_RETRY_EXCEEDED,      /* the peer has no receive posted */
	RC_REMOTE_ACCESS,           /* the peer: no such key, or out of its bounds */
	RC_REMOTE_INVALID,          /* the peer: not a request that it can take */
	RC_REMOTE_OPERATIONAL,      /* the peer: cannot go on for a reason of its own */
	RC_LOCAL_LENGTH,            /* a message was longer than the receive posted for it */
	RC_STATUSES,
};

enum rc_state {
	RC_IDLE,      /* created: takes posted receives */
	RC_CONNECTED, /* sends and receives */
	RC_ERROR,     /* to be destroyed, once its completions are polled */
};

struct rc_completion {
	u64 id; /* as it was posted */
	u32 kind, status;
	u32 bytes;     /* received or written */
	u32 immediate; /* host order */
	bool has_immediate;
};

struct rc_counters {
	u64 tx_packets, tx_bytes; /* payload, first transmissions and repeated ones */
	u64 rx_packets, rx_bytes; /* payload that was taken */
	u64 repeated;             /* packets sent once more */
	u64 timeouts;
	u64 tx_acks, rx_acks;
	u64 tx_nak_sequence, rx_nak_sequence;
	u64 tx_nak_rnr, rx_nak_rnr;
	u64 tx_nak_access, rx_nak_access;   /* writes with a wrong key, or out of bounds */
	u64 tx_nak_invalid, rx_nak_invalid; /* requests that cannot be taken */
	u64 rx_duplicates, rx_out_of_order, rx_stale_acks;
	u64 rx_congested; /* packets that a switch has marked */
	u64 tx_cnps, rx_cnps;
};

/*
 * A new pair, with room for so many posted sends and receives (powers of two). NULL if the endpoint is full
 * or memory is short. Completions that are not polled keep their places.
 */
struct rc *rc_create(struct endpoint *endpoint, u32 send_depth, u32 receive_depth);
void rc_destroy(struct rc *rc);

u32 rc_qpn(const struct rc *rc);
enum rc_state rc_state(const struct rc *rc);

/* Values that suit a port of that rate; addresses, QPN and PSNs are left to the caller. */
void rc_defaults(struct rc_config *config, u64 rate_bps);

/* From idle to connected; false if the configuration makes no sense. */
bool rc_connect(struct rc *rc, const struct rc_config *config, u64 now_ns);

/*
 * Messages. The memory must stay as it is until the completion. False if the queue is full, the message is
 * longer than RC_MESSAGE_MAX, or the pair is not connected (not yet in error, for receives).
 * A posted receive's bytes may be 0, for writes with immediate.
 */
bool rc_post_send(struct rc *rc, u64 id, const void *data, u32 bytes);
bool rc_post_send_immediate(struct rc *rc, u64 id, const void *data, u32 bytes, u32 immediate);
bool rc_post_write(struct rc *rc, u64 id, const void *data, u32 bytes, u64 remote_address, u32 remote_key);
bool rc_post_write_immediate(struct rc *rc, u64 id, const void *data, u32 bytes, u64 remote_address,
			     u32 remote_key, u32 immediate);
bool rc_post_receive(struct rc *rc, u64 id, void *buffer, u32 bytes);

/*
 * Builds the next frame, if one is due, in up to four buffers that together have RC_FRAME_MAX bytes, or as
 * many as rc_frame_max() says; the first has RC_HEADER_MAX at least. Returns the frame's bytes, 0 if none is
 * due now. The buffers are filled in order, each but the last one wholly. Acts on time-outs also.
 */
u32 rc_transmit(struct rc *rc, const struct span *out, u32 spans, u64 now_ns);

/* The longest frame that rc_transmit() will build. */
u32 rc_frame_max(const struct rc *rc);

/* When rc_transmit() is to be called next: 0 for now, RC_NEVER if only a frame or a post can change that. */
u64 rc_next_deadline(const struct rc *rc);

/*
 * For a caller that will not come back for a while. An ACK that waits for others is due at once (rc_flush);
 * and rc_is_owing() tells whether frames remain to be sent, as soon as time, rate and pauses permit.
 */
void rc_flush(struct rc *rc);
bool rc_is_owing(const struct rc *rc);

/* The oldest completion, if there is one. */
bool rc_poll_completion(struct rc *rc, struct rc_completion *completion);

/* To the error state: all that is posted completes as RC_FLUSHED. */
void rc_abort(struct rc *rc);

u32 rc_unacknowledged(const struct rc *rc); /* packets */
const struct rc_counters *rc_counters(const struct rc *rc);
