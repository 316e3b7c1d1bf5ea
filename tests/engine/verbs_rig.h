/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA devices in memory for the verbs wire: queue pairs that deliver in order, with keys, receives,
 * completion queues and events, and that count what a real device would refuse. A thread delivers, at random
 * moments.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define RIG_RANKS       16
#define RIG_CONNECTIONS 8

struct rig;
struct verbs_wire;

/* `gid_file` holds the text "gid"; connections are dead after `silent_ns` without an acknowledgement. */
struct rig *rig_create(u32 window, u32 slot_bytes, u32 ring_bytes, u64 silent_ns, const char *gid_file,
		       u64 seed);

/* A rank's wire; `links` has the peer's rank, and the peer's number of the connection, of each connection. */
struct verbs_wire *rig_add(struct rig *rig, u32 rank, u32 connections, const u32 *links, u32 devices);
void rig_start(struct rig *rig);

/* Before engines are closed: writes under way no longer change memory, which may be freed. */
void rig_discard_writes(struct rig *rig);

/* After all wires are closed. */
void rig_destroy(struct rig *rig);

/* What a rank sends on a connection stays under way, as on a dead path. */
void rig_cut(struct rig *rig, u32 rank, u32 connection, bool is_cut);

/* What a rank sends on a connection arrives, but the acknowledgements are lost. */
void rig_lose_acknowledgements(struct rig *rig, u32 rank, u32 connection);

/* Requests of a connection fail from now on with this status. */
void rig_fail(struct rig *rig, u32 rank, u32 connection, u32 status);

/* A rank closes its end in order: with a report of what had arrived, or without (-1). */
void rig_close(struct rig *rig, u32 rank, u32 connection, long long arrived);

/* A SEND of the test's making; false if the peer has no receive for it. */
bool rig_inject(struct rig *rig, u32 rank, u32 connection, const u8 *bytes, u32 length);

struct rig_counts {
	u64 rnr;        /* the receiver was not ready */
	u64 overflows;  /* of send queues, receive queues and completion queues */
	u64 violations; /* keys and bounds */
	u64 writes, sends, credits, probes, signalled;
	u64 pinned; /* regions at present */
};

/* As the core does. */
u32 rig_register(struct rig *rig, u32 rank, void *memory, u64 bytes);
void rig_deregister(struct rig *rig, u32 rank, u32 key);

struct rig_counts rig_counts(struct rig *rig);
u64 rig_arrived(struct rig *rig, u32 rank, u32 connection);
