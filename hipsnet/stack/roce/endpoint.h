/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint: the queue pairs and memory regions of a process, and the dispatch of frames to pairs.
 *
 * The Python bindings read this file (core.py): it may contain declarations and macros that are numbers,
 * nothing else.
 */
#pragma once

#include <stdbool.h>

#include "roce/rc.h"
#include "wire/types.h"

/*
 * A new endpoint for so many pairs and regions, both powers of two up to 65536. The seed makes QPNs and keys
 * hard to guess. NULL if memory is short.
 */
struct endpoint *endpoint_create(u32 pairs, u32 regions, u64 seed);

/* With all its pairs. */
void endpoint_destroy(struct endpoint *endpoint);

/*
 * Lets peers that know the key write to `bytes` of memory at `base`, which they refer to as `address`.
 * Returns the key, 0 if the table is full.
 */
u32 endpoint_register(struct endpoint *endpoint, void *base, u64 bytes, u64 address);

/* Writes with this key are refused from now on, also in the middle of a message. */
bool endpoint_deregister(struct endpoint *endpoint, u32 key);

/* From now on writes are received and acknowledged as before, but no region is accessed any more. */
void endpoint_discard(struct endpoint *endpoint);

/*
 * Handles a frame in up to four buffers, the first of which holds all headers. Returns its pair, whose
 * rc_next_deadline() may have changed; NULL if the frame was dropped (endpoint_drops() counts the reasons).
 * The frame is not referred to afterwards. The caller has checked that the frame is for the local MAC.
 */
struct rc *endpoint_receive(struct endpoint *endpoint, const struct span *frame, u32 spans, u64 now_ns);

/* Dropped frames by reason, in the order of roce/drops.h. */
const u64 *endpoint_drops(const struct endpoint *endpoint);
