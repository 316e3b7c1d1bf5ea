/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint: the queue pairs and the memory regions of a process, and the way of a frame to its pair.
 *
 * The Python face reads this file (core.py): declarations only, and no macros but numbers.
 */
#pragma once

#include <stdbool.h>

#include "roce/rc.h"
#include "wire/types.h"

/*
 * Room for so many pairs and regions, both powers of two up to 65536. The seed makes QPNs and keys hard to
 * guess. NULL if memory is short.
 */
struct endpoint *endpoint_create(u32 pairs, u32 regions, u64 seed);

/* With all its pairs. */
void endpoint_destroy(struct endpoint *endpoint);

/*
 * Lets peers that know the key write to `bytes` of memory at `base`, which they call `address`. Returns the
 * key, 0 if there is no room left.
 */
u32 endpoint_register(struct endpoint *endpoint, void *base, u64 bytes, u64 address);

/* From now on the key is refused, in the middle of a message also. */
bool endpoint_deregister(struct endpoint *endpoint, u32 key);

/*
 * Takes a frame that lies in up to four buffers, its headers in the first. Returns its pair, to whom
 * rc_next_deadline() may have changed, or NULL if it was dropped; why, endpoint_drops() counts.
 * Nothing of the frame is kept. Frames must be those of the local MAC: MAC addresses are not looked at.
 */
struct rc *endpoint_receive(struct endpoint *endpoint, const struct span *frame, u32 spans, u64 now_ns);

/* How many frames were dropped, for each of the reasons in roce/drops.h, in their order. */
const u64 *endpoint_drops(const struct endpoint *endpoint);
