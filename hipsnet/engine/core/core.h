/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the calls of one rank: sends what may be sent, applies what has arrived, until each is done.
 *
 * No input or output happens here, no thread, no clock: a wire carries what the core posts and reports what
 * came (core_on_...), and time is an argument. So every order of events can be played in a test. Memory is
 * allocated when the core is created and when a call larger than all before is submitted, never in between.
 *
 * Calls are numbered in the order of their submission, which must be the same on every rank. Up to
 * `window` of them are under way at once. The sends of one call leave each connection in the order of its
 * schedule; calls share a connection in turn.
 *
 * - A call whose segments all fit into a message is eager: each segment travels as one message, which waits
 *   in a slot of the receiver until its turn, also before the receiver has entered the call.
 * - In any other call, finished pieces are written straight into the peer's array, once its READY has told
 *   where that is. What is to be combined is written into a staging slot that the sender chooses.
 *
 * Slots cannot lock up. Of the slots of a connection, `reserve` are for the oldest call that still has
 * something to send there. So the oldest call of all always proceeds, whatever younger ones hold.
 *
 * The Python face reads this file: declarations only, and no macros but numbers.
 */
#pragma once

#include <stdbool.h>

#include "engine/core/message.h"
#include "engine/core/plan.h"
#include "wire/types.h"

#define CORE_SLOTS_MAX 62 /* a slot has 6 bits of an immediate */
#define CORE_WINDOW    32
#define CORE_IN_FLIGHT 8 /* writes of a connection that the wire may hold */
#define CORE_REASON    256

struct core;
struct wire_operations;

struct core_config {
	u32 rank, ranks, connections;
	const u32 *peer_rank, *peer_level; /* by connection */
	u32 slots, slot_bytes;             /* staging, for each connection */
	u32 eager_slots, eager_bytes;      /* messages that wait, and the longest payload */
	u32 reserve;
	u64 warn_ns, timeout_ns, heartbeat_ns;
};

enum failure_reason {
	FAILURE_NONE,
	FAILURE_CLOSED,   /* words: what the wire said */
	FAILURE_SILENT,   /* values[0]: ns */
	FAILURE_ABSENT,   /* alive, but not in the call: values[0]: ns, values[1]: its last call */
	FAILURE_STALLED,  /* values[0]: ns without progress of any rank; values[1]: sequence << 32 | stage */
	FAILURE_MISMATCH, /* words: both signatures */
	FAILURE_PROTOCOL, /* words: what cannot be */
	FAILURE_LOCAL,    /* words: why this rank cannot go on */
	FAILURE_REASONS,
};

/* Why no call can end any more. */
struct core_failure {
	u32 reason;
	int culprit; /* rank, or -1 */
	u32 seen_by,
		level;  /* the rank that found out, and where; level CORE_NO_LEVEL: nowhere in particular */
	int told_by;    /* connection whose ABORT told, or -1 */
	int connection; /* at which this rank found out, or -1 */
	u64 values[2];
	char words[MESSAGE_REASON + 1];
	struct signature ours, theirs; /* of a mismatch */
	u32 sequence;                  /* of the oldest call that could not end */
};

#define CORE_NO_LEVEL 0xffff

enum call_state {
	CALL_UNKNOWN, /* never submitted, or released */
	CALL_ACTIVE,
	CALL_DONE,
	CALL_FAILED,
};

struct call_buffer {
	void *memory;
	u64 first; /* element of the vector with which it begins */
	u64 count; /* elements */
};

/* Where a call stands, for messages and for `hipsnet jobs`. */
struct call_standing {
	u32 sequence;
	u64 bytes_received, bytes_total;
	bool is_waiting; /* for a receive: then the next three */
	u32 connection, thread, stage;
};

struct core *core_create(const struct core_config *config, const struct wire_operations *wire, void *handle);
void core_destroy(struct core *core);

/* Introduces this rank to its neighbours. False if the wire cannot register the slots. */
bool core_start(struct core *core, u64 now_ns);

/*
 * A new call, whose number it returns; 0 if `window` calls are under way, memory is short, the wire cannot
 * register a buffer, or a call has failed. The plan and the buffers stay the caller's until the call is done.
 */
u32 core_submit(struct core *core, const struct plan *plan, const struct signature *signature,
		const struct call_buffer *buffers, u64 now_ns);

enum call_state core_state(const struct core *core, u32 sequence);

/* Frees a call's place in the window, once it is done or failed. */
void core_release(struct core *core, u32 sequence);

/* Posts what may leave. To be called after core_on_... and core_submit(). */
void core_push(struct core *core);

/* Heartbeats, silence and stalls. Returns when it is to be called next. */
u64 core_tick(struct core *core, u64 now_ns);

/* From the wire. */
void core_on_sent(struct core *core, u32 connection, u32 immediate);
void core_on_written(struct core *core, u32 connection, u32 immediate, u64 now_ns);
void core_on_message(struct core *core, u32 connection, const u8 *bytes, u32 length, u64 now_ns);
void core_on_closed(struct core *core, u32 connection, const char *why);

/* Ends all calls and tells the peers: an exception in this process, for instance. */
void core_fail(struct core *core, u32 reason, const char *words);

/* NULL as long as there is none. */
const struct core_failure *core_failure(const struct core *core);

u32 core_active(const struct core *core); /* calls under way */
bool core_where(const struct core *core, u32 sequence, struct call_standing *standing);

/* How long each connection has been awaited in silence, for warnings; 0 if it is not awaited. */
u64 core_silent_ns(const struct core *core, u32 connection, u64 now_ns);
