/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the calls of one rank: sends ready segments and applies received segments until each call is done.
 *
 * The core performs no I/O, has no threads and reads no clock: a wire transfers the posted data and reports
 * events (core_on_...), and the time is an argument. So tests can run any order of events. Memory is
 * allocated only when the core is created and when a call exceeds the size of all previous calls.
 *
 * Calls are numbered in the order of their submission, which must be the same on every rank. Up to
 * CORE_WINDOW calls are under way at once. The segments of a call are sent on each connection in the order of
 * its schedule; calls share a connection in turn.
 *
 * - A call is eager if each of its segments fits into a message: each segment is sent as one message, which
 *   waits in a slot of the receiver until its turn, also before the receiver has submitted the call.
 * - In any other call, finished pieces are written directly into the peer's array, after the peer's READY has
 *   given its key. Segments to be combined are written into a staging slot chosen by the sender.
 *
 * Slots cannot deadlock: `reserve` slots of each connection are reserved for the oldest call that still has
 * segments to send there. So the oldest call always proceeds, independent of the slots of younger calls.
 *
 * cffi parses this file: declarations and numeric macros only.
 */
#pragma once

#include <stdbool.h>

#include "engine/core/message.h"
#include "engine/core/plan.h"
#include "wire/types.h"

#define CORE_SLOTS_MAX 62 /* a slot has 6 bits of an immediate */
#define CORE_WINDOW    32
#define SLOT_ALIGNMENT 8 /* of slot_bytes and eager_bytes: reductions read slots as arrays */
#define CORE_IN_FLIGHT 8 /* writes of a connection that the wire may hold */
#define CORE_REASON    256

struct core;
struct wire_operations;

struct core_config {
	u32 rank, ranks, connections;
	const u32 *peer_rank, *peer_level; /* by connection */
	u32 slots, slot_bytes;             /* staging, for each connection */
	u32 eager_slots, eager_bytes;      /* waiting messages, and the longest payload */
	u32 reserve;
	u64 warn_ns, timeout_ns, heartbeat_ns;
};

enum failure_reason {
	FAILURE_NONE,
	FAILURE_CLOSED,   /* words: the error of the wire */
	FAILURE_SILENT,   /* values[0]: ns */
	FAILURE_ABSENT,   /* alive, but not in the call: values[0]: ns, values[1]: its last call */
	FAILURE_STALLED,  /* values[0]: ns without progress of any rank; values[1]: sequence << 32 | stage */
	FAILURE_MISMATCH, /* both signatures; values[0]: sequence */
	FAILURE_PROTOCOL, /* words: the violation */
	FAILURE_LOCAL,    /* words: the error on this rank */
	FAILURE_REASONS,
};

/* The failure that ended all calls. */
struct core_failure {
	u32 reason;
	int culprit;        /* rank, or -1 */
	u32 seen_by, level; /* the rank and level that detected it; CORE_NO_LEVEL: no specific level */
	int reported_by;    /* the connection that received the ABORT, or -1 */
	int connection;     /* the connection on which this rank detected it, or -1 */
	u64 values[2];
	char words[MESSAGE_REASON + 1];
	struct signature ours, theirs; /* of a mismatch: of the rank that detected it, and of the culprit */
	u32 sequence;                  /* of the oldest failed call */
};

#define CORE_NO_LEVEL 0xffff

enum call_state {
	CALL_UNKNOWN, /* never submitted, or released */
	CALL_ACTIVE,
	CALL_DONE,
	CALL_FAILED,
};

/*
 * An array that holds elements [first, first + count) of the vector on this rank. A rank needs arrays only
 * for the elements that its segments touch; other ranks may divide the vector in another way. Each segment
 * lies within one array on both ranks.
 */
struct call_buffer {
	void *memory;
	u64 first, count;
	bool has_result; /* a mean: divide these elements at the end */
};

/* The progress of a call, for messages and for `hipsnet jobs`. */
struct call_standing {
	u32 sequence;
	u64 bytes_received, bytes_total;
	bool is_waiting; /* for a receive, given by the next three fields */
	u32 connection, thread, stage;
};

struct core *core_create(const struct core_config *config, const struct wire_operations *wire, void *handle);
void core_destroy(struct core *core);

/* Sends HELLO to all neighbours. False if the wire cannot register the slots. */
bool core_start(struct core *core, u64 now_ns);

/*
 * Submits a call and returns its number; 0 if CORE_WINDOW calls are under way, memory is short, the wire
 * cannot register a buffer, a segment lies outside the buffers, or a call has failed. The buffers are in
 * ascending order. The caller keeps the plan and the memory valid until the call is done.
 */
u32 core_submit(struct core *core, const struct plan *plan, const struct signature *signature,
		const struct call_buffer *buffers, u32 count, u64 now_ns);

enum call_state core_state(const struct core *core, u32 sequence);

/* Frees a call's place in the window, once it is done or failed. */
void core_release(struct core *core, u32 sequence);

/* Posts the ready segments. Call it after core_on_... and core_submit(). */
void core_push(struct core *core);

/* Sends heartbeats, detects silence and stalls. Returns the time of the next call. */
u64 core_tick(struct core *core, u64 now_ns);

/* From the wire. */
void core_on_sent(struct core *core, u32 connection, u32 immediate);
void core_on_written(struct core *core, u32 connection, u32 immediate, u64 now_ns);
void core_on_message(struct core *core, u32 connection, const u8 *bytes, u32 length, u64 now_ns);
void core_on_closed(struct core *core, u32 connection, const char *why);

/* Fails all calls and sends ABORT to the peers: for an exception in this process, for instance. */
void core_fail(struct core *core, u32 reason, const char *words);

/* NULL if no call has failed. */
const struct core_failure *core_failure(const struct core *core);

u32 core_active(const struct core *core); /* calls under way */
u32 core_ended(const struct core *core);  /* calls that are done or have failed, since the start */
bool core_where(const struct core *core, u32 sequence, struct call_standing *standing);

/* How long an awaited peer has sent nothing, or (absent) has not entered the oldest call that awaits it. */
struct peer_delay {
	u64 silent_ns, absent_ns;
	u32 sequence; /* of that call; 0 if the peer is not awaited */
};

struct peer_delay core_delay(const struct core *core, u32 connection, u64 now_ns);
