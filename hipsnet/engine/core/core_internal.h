/* SPDX-License-Identifier: Apache-2.0 */
/* The core's state, shared by its files: calls.c, sending.c, receiving.c, early.c, liveness.c. */
#pragma once

#include "engine/core/core.h"
#include "engine/wire/wire.h"

#define IN_PLACE 63 /* slot number of a segment that was written into the array */

/* The immediate of a write: the call's tag on the connection, the slot, the segment's number. */
#define IMMEDIATE(tag, slot, number) ((u32)(tag) << 26 | (u32)(slot) << 20 | (number))
#define IMMEDIATE_TAG(immediate)     ((immediate) >> 26)
#define IMMEDIATE_SLOT(immediate)    ((immediate) >> 20 & 0x3f)
#define IMMEDIATE_NUMBER(immediate)  ((immediate)&0xfffff)
#define TAGS                         64

/* Where a received segment waits for its turn. */
enum place { PLACE_NOWHERE, PLACE_HERE, PLACE_SLOT, PLACE_EAGER };

struct held {
	u8 place;
	u8 slot;
};

/* The state of a call on one connection. */
struct lane {
	u32 sent;     /* posted to the wire */
	u32 left;     /* of these, sent: their memory may be reused */
	u32 received; /* arrived */
	u32 tag;      /* of writes */
	bool is_used;
	bool is_ready; /* the peer's READY has come */
	u32 peer_buffers;
};

struct call {
	enum call_state state;
	u32 sequence;
	const struct plan *plan;
	struct signature signature;
	u32 itemsize;
	bool is_eager;
	u32 segments_left, readies_left;
	struct call_buffer buffers[MESSAGE_BUFFERS];
	wire_key keys[MESSAGE_BUFFERS];
	u32 buffer_count;
	struct lane *lanes;                  /* by connection */
	struct message_buffer *peer_buffers; /* MESSAGE_BUFFERS for each connection */
	u32 *waits;                          /* by segment */
	struct held *held;                   /* by segment */
	u32 *stack;                          /* segments to complete: iterative, as chains can be long */
	u32 capacity;                        /* of the arrays above, in segments */
};

/* A waiting message of an eager call. */
struct eager_slot {
	bool is_used;
	bool is_early; /* for a call that this rank has not submitted */
	u32 sequence, number, bytes;
	struct signature signature;
	u8 *payload;
};

/* The segment in a local staging slot before its call is submitted. */
struct early_write {
	bool is_used;
	u32 tag, number;
};

/* A peer's READY for a call that this rank has not submitted. */
struct early_ready {
	bool is_used;
	struct message_ready ready;
};

struct connection {
	u32 rank, level;
	bool is_closed;
	bool has_greeted;      /* its HELLO has come */
	char why[CORE_REASON]; /* the reason of the close */
	u32 tags;              /* calls with writes that have used this connection */

	/* Sending. */
	u64 free_slots; /* of the peer's staging, one bit per slot */
	wire_key staging_key;
	u32 eager_posted, eager_emptied_there; /* messages, since the connection began */
	u32 in_flight;                         /* writes posted and not completed */
	u32 turn;                              /* sequence of the last call that posted a write */

	/* Receiving. */
	u8 *staging;
	wire_key our_key;
	u64 slots_to_credit; /* emptied, credit not sent yet */
	u32 eager_emptied, eager_credited;
	struct early_write early_writes[CORE_SLOTS_MAX];
	struct early_ready early_readies[CORE_WINDOW];
	struct eager_slot *eager;

	/* Liveness. */
	u64 heard_ns, spoke_ns;
	u32 posted, arrived; /* segments, since the connection began */
	u32 entered;         /* the last call that the peer has announced */
	bool is_busy;        /* it was in a call when it sent the last heartbeat */
	u64 absent_ns;       /* time since which it is awaited, idle, and has not entered */
};

struct core {
	struct core_config config;
	const struct wire_operations *wire;
	void *handle;
	u32 submitted; /* sequence of the last call */
	struct stall stall;
	bool may_push; /* a segment may have become ready to send */
	bool is_wire_full;
	bool has_failed;
	struct core_failure failure;
	struct connection *connections;
	struct call calls[CORE_WINDOW]; /* by sequence % CORE_WINDOW */
	u32 order[CORE_WINDOW];         /* active calls: indices in `calls`, the oldest first */
	u32 active;
	u64 now_ns;
	u8 *staging, *eager;
	u64 staging_bytes, eager_bytes;
};

/* calls.c */
struct call *find_call(struct core *core, u32 sequence);
struct call *find_tagged(struct core *core, u32 connection, u32 tag);
void complete_segment(struct core *core, struct call *call, u32 segment);
void finish_if_done(struct core *core, struct call *call);
void *address_of(const struct call *call, const struct plan_segment *segment);
struct message_buffer place_at_peer(const struct call *call, const struct plan_segment *segment, u64 *offset);

/* receiving.c */
void protocol_error(struct core *core, u32 connection, const char *words);
void apply(struct core *core, struct call *call, u32 segment);
void arrive(struct core *core, struct call *call, u32 connection, u32 number, struct held held);
bool agrees(struct core *core, struct call *call, u32 connection, const struct signature *other);
bool fits(struct core *core, struct call *call, u32 connection, u32 number, u32 bytes);
void on_ready(struct core *core, struct call *call, u32 connection, const struct message_ready *ready);

/* early.c */
void keep_ready(struct core *core, u32 connection, const struct message_ready *ready);
void keep_write(struct core *core, u32 connection, u32 slot, u32 tag, u32 number);
void take_early(struct core *core, struct call *call);

/* sending.c */
bool send_control(struct core *core, u32 connection, const struct message *message);
void send_ready(struct core *core, struct call *call, u32 connection);
void give_credit(struct core *core, u32 connection, bool at_once);

/* liveness.c */
void note_entry(struct core *core, u32 connection, u32 sequence);
struct position position_of(const struct core *core);
bool is_awaited(const struct core *core, u32 connection);
void fail_at(struct core *core, u32 reason, int connection, u64 first, u64 second, const char *words);
