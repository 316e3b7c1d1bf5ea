/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wire over RDMA queue pairs, one for each neighbour and port.
 *
 * Writes are RDMA WRITE WITH IMMEDIATE from the caller's memory into the peer's; messages are SENDs, copied
 * into a ring when they are posted. The wire calls the device through `struct verbs_posting`, and so needs no
 * RDMA library itself: verbs_ibverbs.c calls libibverbs, verbs_callbacks.py calls pyverbs.
 *
 * The queue pairs, completion queues and registrations belong to Python, which sets them up; the wire asks
 * for changes through `struct verbs_owner`.
 *
 * cffi parses this file: declarations and numeric macros only.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define VERBS_REGIONS 4096
#define VERBS_QUEUE   256     /* writes and messages of a connection that wait for credit */
#define VERBS_CONTROL 0x10000 /* bytes of the ring reserved for messages without a payload */
#define VERBS_HEADER  16      /* bytes before each message: its kind, and the receives posted again */
#define VERBS_WORDS   600

struct verbs_wire;
struct wire_operations;

enum verbs_kind {
	VERBS_SEND,
	VERBS_WRITE, /* with immediate */
	VERBS_PROBE, /* a write of no bytes: uses no receive of the peer */
};

struct verbs_request {
	u64 number;
	u64 address, remote_address;
	u32 bytes, local_key, remote_key, immediate;
	u32 kind;
	bool is_signalled, is_inline;
};

enum verbs_outcome { VERBS_SENT, VERBS_RECEIVED, VERBS_WRITTEN };

struct verbs_completion {
	u64 number; /* of the request, or the slot of the receive */
	u32 queue_pair, outcome;
	u32 status, vendor_error; /* ibv_wc_status: if not 0, only the queue pair's number is valid besides */
	u32 bytes, immediate;
};

/* Posting and polling. Each function returns an errno, or 0. */
struct verbs_posting {
	void *context;

	int (*post_send)(void *context, u32 connection, const struct verbs_request *requests, u32 count);
	int (*post_receives)(void *context, u32 connection, const u32 *slots, u32 count);
	int (*poll)(void *context, u32 device, struct verbs_completion *completions, u32 most, u32 *count);

	/* Requests an event of the completion channel for the next completion. */
	int (*arm)(void *context, u32 device);

	/* Takes the event that made the channel readable. */
	int (*take_event)(void *context, u32 device);
};

enum verbs_end {
	VERBS_END_WORDS,    /* the reason is in `why` already */
	VERBS_END_STATUS,   /* a completion failed: its status and vendor error */
	VERBS_END_ENDPOINT, /* the device is gone, or has lost the GID */
	VERBS_END_SILENT,   /* ns without an acknowledgement */
	VERBS_END_POSTING,  /* errno of posting or polling */
};

struct verbs_owner {
	void *context;

	/* Closes the queue pair and writes the reason into `why`, of VERBS_WORDS bytes. */
	void (*end)(void *context, u32 connection, u32 reason, u64 first, u64 second, char *why);

	/* Registers memory with all devices and calls verbs_wire_add_region(). Returns its key; 0 on failure.
	 */
	u32 (*pin)(void *context, void *memory, u64 bytes);
	void (*unpin)(void *context, u32 key);
};

struct verbs_connection_config {
	u32 device, queue_pair;
	int socket;                 /* TCP: readable when the peer closes; carries its last message */
	const char *gid_file, *gid; /* the connection ends when this file has other content */
	u8 *memory;                 /* receive slots, ring, credits: see struct verbs_config */
	u32 local_key;              /* of it */
	u32 inline_bytes;           /* the longest message that the device copies when it is posted */
	u64 landing_address;        /* the peer's memory that probes name */
	u32 landing_key;
};

struct verbs_config {
	u32 devices, connections;
	const int *channels; /* descriptors of the completion channels, by device */
	const struct verbs_connection_config *connection;
	u32 window;                 /* receives of the peer that a sender may use */
	u32 receives, sends;        /* capacity of a queue pair, without probes */
	u32 signal_every;           /* requests */
	u32 slot_bytes, ring_bytes; /* the ring: a power of two */
	u64 silent_ns;              /* longer than all retries of the device */
};

/* Copies what it needs of the configuration. NULL if memory or descriptors are short. */
struct verbs_wire *verbs_wire_open(const struct verbs_config *config, const struct verbs_posting *posting,
				   const struct verbs_owner *owner);

/* Closes no queue pair and no descriptor of the configuration. */
void verbs_wire_close(struct verbs_wire *wire);

const struct wire_operations *verbs_wire_operations(void);

/* The peer's pieces (writes and messages) that have arrived: sent to it in the last message. */
u64 verbs_wire_arrived(const struct verbs_wire *wire, u32 connection);

/* Makes registered memory known, with its keys by device. Any thread, also during operations. */
void verbs_wire_add_region(struct verbs_wire *wire, u32 key, void *memory, u64 bytes, const u32 *local_keys,
			   const u32 *remote_keys);

/* Call it before the memory is deregistered. False if calls use it; with `later`, owner.unpin() follows. */
bool verbs_wire_remove_region(struct verbs_wire *wire, u32 key, bool later);

u64 verbs_wire_calls(const struct verbs_wire *wire); /* of struct verbs_posting so far, for the benchmark */
