/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between the cores of two ranks, little-endian. Bulk data travels as writes beside them.
 *
 * The parser checks the length of a message and the range of every bounded field. A message that it rejects
 * is a protocol error of the peer.
 */
#pragma once

#include <stdbool.h>

#include "engine/core/stall.h"
#include "wire/types.h"

#define MESSAGE_BUFFERS 64   /* maximum number of arrays that hold a vector */
#define MESSAGE_REASON  1000 /* bytes of words in an ABORT */

enum message_kind {
	MESSAGE_HELLO,     /* the key of the staging slots; the first message of a connection */
	MESSAGE_READY,     /* the sender has submitted this call; its arrays */
	MESSAGE_DATA,      /* a segment of a small call, with the call's signature */
	MESSAGE_CREDIT,    /* slots that are free again */
	MESSAGE_HEARTBEAT, /* the sender is alive; its last call and its progress */
	MESSAGE_ABORT,     /* all calls have failed: the culprit and the reason */
	MESSAGE_KINDS,
};

enum call_operation {
	CALL_SUM, /* the first four as enum reduce_operation */
	CALL_PROD,
	CALL_MAX,
	CALL_MIN,
	CALL_MEAN, /* a sum that is finally divided by the number of ranks */
	CALL_COPY, /* no reduction */
	CALL_OPERATIONS,
};

/* The parameters of a call that must be the same on every rank. */
struct signature {
	u64 count;   /* elements */
	u64 cuts;    /* a digest of the boundaries between arrays, and of uneven counts */
	u32 purpose; /* the collective, its algorithm and its root: a number that the core only compares */
	u8 dtype, operation;
};

/* An array of the sender that peers write into: its key, and the index of its first element in the vector. */
struct message_buffer {
	u64 first;
	u32 key;
};

struct message_hello {
	u32 key; /* of the staging slots for this neighbour */
	u32 slots, slot_bytes;
	u32 eager_slots, eager_bytes;
};

struct message_ready {
	u32 sequence;
	u32 tag; /* number of this call among those that use the connection for writes */
	struct signature signature;
	u32 buffers;
	struct message_buffer buffer[MESSAGE_BUFFERS]; /* in ascending order */
};

struct message_data {
	u32 sequence, number;
	u32 eager_emptied; /* as in a credit */
	struct signature signature;
	const u8 *payload;
	u32 bytes;
};

struct message_credit {
	u32 eager_emptied; /* messages taken, since the connection began */
	u64 slots;         /* staging slots that are free again, one bit per slot */
};

struct message_heartbeat {
	u32 sequence; /* of the last call that was submitted */
	u32 active;   /* submitted calls that have not ended */
	u32 posted;   /* segments on this connection since it was opened: all of them must have arrived */
	u64 stalled_ns;
	struct position behind; /* core/stall.h */
};

struct message_abort {
	int culprit; /* rank, or -1 */
	u32 seen_by, level;
	u32 reason;                    /* enum failure_reason */
	u64 values[2];                 /* parameters of the reason */
	struct signature ours, theirs; /* of a mismatch: the reporter's and the culprit's */
	char words[MESSAGE_REASON + 1];
};

#define MESSAGE_HEADER_MAX 1100 /* longest message without its payload */

struct message {
	enum message_kind kind;
	union {
		struct message_hello hello;
		struct message_ready ready;
		struct message_data data;
		struct message_credit credit;
		struct message_heartbeat heartbeat;
		struct message_abort abort;
	};
};

/* Writes the message (DATA: without its payload) to `out`, of MESSAGE_HEADER_MAX bytes; returns its length.
 */
u32 message_build(const struct message *message, u8 *out);

/* False if the bytes are not a valid message; the payload of DATA points into `bytes`. */
bool message_parse(struct message *message, const u8 *bytes, u32 length);

bool signature_equals(const struct signature *a, const struct signature *b);
