/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AF_XDP sockets: frames to and from one queue of an interface, bypassing the kernel's network stack.
 *
 * Frames lie in a memory (the UMEM) shared with the kernel and cut into chunks of 4096 bytes. A memory has
 * two zones. In the receive zone chunks are independent: a received frame occupies up to three of them,
 * anywhere, and is described by spans. In the send zone each frame has as many adjacent chunks as the
 * longest frame needs: an outgoing frame is one flat buffer and is built in place.
 *
 * One memory serves one or many sockets, also of several namespaces. Sockets that share a memory can send
 * what another one received without a copy: see xsk_forward.
 *
 * A chunk is always in exactly one place: free, in the fill ring (the kernel may receive into it), with the
 * caller (received and not released, or reserved and not committed), or in the transmit ring (the kernel has
 * not sent it yet). Nothing is allocated once a socket is open. One thread owns a memory and its sockets.
 *
 *	struct xsk_memory *memory;
 *	struct xsk *xsk;
 *	int error = xsk_memory_open(&memory, 2048, 512, 9018);
 *	error = error ? error : xsk_open(&xsk, memory, "p0", 0, 0);
 *	xsk_refill(xsk);
 *	for (;;) {
 *		struct xsk_frame frames[64];
 *		u32 count = xsk_receive(xsk, frames, 64);
 *
 *		for (u32 i = 0; i < count; i++)
 *			look_at(frames[i].spans, frames[i].count);
 *		xsk_release(xsk, frames, count);
 *		u8 *out = xsk_reserve(xsk);
 *		if (out)
 *			xsk_commit(xsk, out, build(out, xsk_room(xsk)));
 *		xsk_kick(xsk);
 *		...poll(xsk_fd(xsk), POLLIN)...
 *	}
 *
 * Functions that return int return 0 or -errno unless they say otherwise.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define XSK_CHUNK_BYTES 4096U
#define XSK_MOST_SPANS  3     /* of a received frame, at most: 3 * (4096 - 256) bytes */
#define XSK_MOST_BYTES  9018U /* an MTU of 9000, the Ethernet header and one VLAN tag; no FCS */
#define XSK_RING        2048U /* entries of each ring */

struct xsk_memory;
struct xsk;

/* A received frame. All spans but the last hold 3840 bytes, so the first one has all headers. */
struct xsk_frame {
	struct span spans[XSK_MOST_SPANS];
	u32 count; /* of spans */
	u32 bytes; /* of all spans together */
};

/* The layout of a memory, required by a process that adopts the memory. */
struct xsk_geometry {
	u32 receive_chunks; /* of the receive zone */
	u32 send_frames;    /* of the send zone; 0: frames are only forwarded */
	u32 frame_bytes;    /* the longest frame that is built, at most XSK_MOST_BYTES */
};

/* Since the socket was opened. The last six are those of the kernel (struct xdp_statistics). */
struct xsk_statistics {
	u64 rx_frames, rx_bytes;
	u64 tx_frames, tx_bytes;
	u64 kicks;      /* system calls to send */
	u64 tx_full;    /* attempts to send that found the transmit ring or the send zone full */
	u64 rx_foreign; /* frames in more than three chunks, dropped */
	u64 rx_dropped, rx_invalid, tx_invalid, rx_ring_full, rx_fill_empty, tx_ring_empty;
};

/* Options of xsk_open. Without XSK_COPY, drivers without zero-copy (veth) fall back to copy mode. */
enum xsk_flags {
	XSK_COPY = 1, /* copy mode */
};

/* The memory */

/* Creates a memory, in a memfd: xsk_memory_fd may be passed to another process. */
int xsk_memory_open(struct xsk_memory **memory, u32 receive_chunks, u32 send_frames, u32 frame_bytes);

/* Maps the memory of another process by its descriptor, which the caller keeps. All chunks count as free, so
 * only one process may use a memory at a time. */
int xsk_memory_adopt(struct xsk_memory **memory, int fd, struct xsk_geometry geometry);

/* To be called after its sockets are closed. NULL is ignored. */
void xsk_memory_close(struct xsk_memory *memory);

int xsk_memory_fd(const struct xsk_memory *memory);

/* Free chunks of the receive zone: those in no ring and not with the caller. */
u32 xsk_memory_free(const struct xsk_memory *memory);

/* The socket */

/*
 * Opens a socket on a queue of an interface in the calling thread's network namespace (the thread may change
 * its namespace afterwards). Requires CAP_NET_RAW. A queue whose socket was just closed stays busy for a
 * moment: retries for up to a second, then returns -EBUSY.
 */
int xsk_open(struct xsk **xsk, struct xsk_memory *memory, const char *ifname, u32 queue, u32 flags);

/*
 * Takes over a socket that another process has opened on this memory and not used, by its descriptor, which
 * the caller keeps. Requires no privilege.
 */
int xsk_adopt(struct xsk **xsk, struct xsk_memory *memory, int fd);

/* Opens the map that is pinned at a path: a descriptor, or -errno. Requires CAP_BPF. */
int xsk_open_map(const char *path);

/*
 * Enters the socket into an XSKMAP, a descriptor: the interface's program may redirect frames to it from then
 * on. The kernel removes it from the map when it is closed. Requires CAP_BPF.
 */
int xsk_join(const struct xsk *xsk, int map, u32 key);

/* Frames that wait in its rings are lost, and their chunks become free. NULL is ignored. */
void xsk_close(struct xsk *xsk);

/* For poll(), and to pass to another process; readable when frames wait. */
int xsk_fd(const struct xsk *xsk);
void xsk_statistics(const struct xsk *xsk, struct xsk_statistics *statistics);

/* Receiving */

/* Fills the fill ring with free chunks for the kernel to receive into. Required before the first frame, and
 * after frames were released by xsk_memory_release or forwarded; xsk_release includes it. */
void xsk_refill(struct xsk *xsk);

/* Limits the chunks in the fill ring, so that sockets share a memory fairly. Default: XSK_RING. */
void xsk_limit_fill(struct xsk *xsk, u32 chunks);

/* Takes up to `most` received frames, in order. The caller owns them until it releases or forwards them. */
u32 xsk_receive(struct xsk *xsk, struct xsk_frame *frames, u32 most);

/* The fill level of the receive ring, in chunks. */
u32 xsk_waiting(struct xsk *xsk);

/* Returns frames that this socket received to the kernel. */
void xsk_release(struct xsk *xsk, const struct xsk_frame *frames, u32 count);

/* Frees a frame that any socket of the memory received; xsk_refill returns its chunks to the kernel. */
void xsk_memory_release(struct xsk_memory *memory, const struct xsk_frame *frame);

/* Sending */

/* The longest frame that can be built. */
u32 xsk_room(const struct xsk *xsk);

/* A flat buffer of xsk_room bytes for a frame; NULL while none is free or the transmit ring is full. Only one
 * is reserved at a time: until it is committed, further calls return the same one. */
u8 *xsk_reserve(struct xsk *xsk);

/* Queues the frame in the reserved buffer; with 0 bytes the buffer stays reserved. */
void xsk_commit(struct xsk *xsk, u8 *frame, u32 bytes);

/*
 * Queues a received frame, of any socket of the same memory, without a copy; its headers may have been
 * changed in place. Its chunks become free when it is sent. False while the transmit ring is full: the caller
 * keeps it.
 */
bool xsk_forward(struct xsk *xsk, const struct xsk_frame *frame);

/*
 * Makes the kernel send what is queued. In copy mode it sends within the call, a limited number of
 * descriptors at a time (32, or the XDP_MAX_TX_SKB_BUDGET): repeated until all is sent or the interface
 * accepts no more. Returns the number of descriptors that still wait; if not 0, retry soon (EAGAIN, ENOBUFS,
 * interface down). Other errors, such as -ENXIO, are permanent.
 */
int xsk_kick(struct xsk *xsk);

/* Whether the interface was down at the last xsk_kick. */
bool xsk_is_down(const struct xsk *xsk);

/* Frees the chunks of frames that were sent. xsk_reserve and xsk_kick include it. */
void xsk_recycle(struct xsk *xsk);
