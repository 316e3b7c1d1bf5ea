/* SPDX-License-Identifier: Apache-2.0 */
/* The memory as its sockets see it; see xsk/xsk.h. */
#pragma once

#include <xdp/xsk.h>

#include "xsk/xsk.h"

#define XSK_MOST_SOCKETS 254u /* of one memory: a holder's number is one byte */
#define XSK_NOBODY       0u

/* Indices of free chunks or frames, last in first out: the one used last is still in the cache. */
struct xsk_stack {
	u32 *numbers;
	u32 count;
};

struct xsk_memory {
	struct xsk_geometry geometry;
	int fd;
	u8 *area;
	u64 bytes;
	u32 frame_chunks;                 /* of each frame of the send zone */
	struct xsk_umem *umem;            /* from the first socket on; NULL for an adopted memory */
	struct xsk_stack chunks;          /* free ones of the receive zone */
	struct xsk_stack frames;          /* free ones of the send zone */
	u8 *holder;                       /* by chunk of either zone: the socket in whose rings it is */
	u8 *unsent;                       /* by frame of the send zone: chunks that the kernel has not sent */
	bool taken[XSK_MOST_SOCKETS + 1]; /* the numbers of sockets */
	u32 sockets;
};

/* Assigns a number to a new socket; XSK_NOBODY if there are too many. */
u8 xsk_memory_enlist(struct xsk_memory *memory);

/* Frees the number of a closed socket, and all chunks that were in its rings. */
void xsk_memory_delist(struct xsk_memory *memory, u8 number);

/* Frees a chunk of either zone that was sent, by any address in it. */
void xsk_memory_sent(struct xsk_memory *memory, u64 address);

static inline u32 chunk_of(u64 address)
{
	return (u32)(address / XSK_CHUNK_BYTES);
}

static inline u64 address_of(const struct xsk_memory *memory, const u8 *data)
{
	return (u64)(data - memory->area);
}
