/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AF_XDP sockets: frames in and out of one queue of an interface, past the kernel's own stack.
 *
 * Frames lie in a memory (the UMEM) that the kernel and we share, cut into chunks of 4096 bytes. A memory has
 * two zones. In the receive zone every chunk is on its own: a frame that comes in takes up to three of them,
 * in no order, so it is seen as spans. In the send zone as many chunks as the longest frame needs lie in a
 * row: a frame that goes out is one flat buffer, whatever its length, and is built in place.
 *
 * One memory serves one socket or many, also those of other namespaces. With a memory in common a frame that
 * came in by one socket goes out by another as it is: see xsk_forward.
 *
 * A chunk is always in exactly one place: free, in the fill ring (the kernel may receive into it), with the
 * caller (received and not released, or reserved and not committed), or in the transmit ring (the kernel has
 * not yet sent it). Nothing is allocated once a socket is open. One thread owns a memory and its sockets.
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
 * Functions that return int give 0 or -errno.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define XSK_CHUNK_BYTES 4096U
#define XSK_MOST_SPANS  3     /* what a received frame is in, at most: 3 * (4096 - 256) bytes */
#define XSK_MOST_BYTES  9018U /* an MTU of 9000, the Ethernet header and one VLAN tag; no FCS */
#define XSK_RING        2048U /* entries of each ring */

struct xsk_memory;
struct xsk;

/* A frame that has come in. All spans but the last hold 3840 bytes, so the headers are in the first. */
struct xsk_frame {
	struct span spans[XSK_MOST_SPANS];
	u32 count; /* of spans */
	u32 bytes; /* of all spans together */
};

/* How a memory is cut. Another process that adopts the memory has to know it. */
struct xsk_geometry {
	u32 receive_chunks; /* in the receive zone */
	u32 send_frames;    /* in the send zone; 0: frames are only forwarded */
	u32 frame_bytes;    /* the longest frame that is sent, at most XSK_MOST_BYTES */
};

/* Since the socket was opened; the last six are the kernel's own (struct xdp_statistics). */
struct xsk_statistics {
	u64 rx_frames, rx_bytes;
	u64 tx_frames, tx_bytes;
	u64 kicks;      /* calls into the kernel to send */
	u64 tx_full;    /* frames that found the transmit ring or the send zone full */
	u64 rx_foreign; /* frames that were in more than three chunks: given back unseen */
	u64 rx_dropped, rx_invalid, tx_invalid, rx_ring_full, rx_fill_empty, tx_ring_empty;
};

/* What xsk_open asks for. Copy mode follows by itself where a driver has no zero-copy: on every veth. */
enum xsk_flags {
	XSK_COPY = 1, /* do not ask for zero-copy */
};

/* The memory */

/* A new memory, in a file without a name: xsk_memory_fd can be handed to another process. */
int xsk_memory_open(struct xsk_memory **memory, u32 receive_chunks, u32 send_frames, u32 frame_bytes);

/* The memory behind a descriptor that another process has made, which stays the caller's. All chunks that no
 * socket holds are free, so one process uses a memory at a time. */
int xsk_memory_adopt(struct xsk_memory **memory, int fd, struct xsk_geometry geometry);

/* After its sockets. NULL is nothing. */
void xsk_memory_close(struct xsk_memory *memory);

int xsk_memory_fd(const struct xsk_memory *memory);

/* How many chunks of the receive zone are free: neither in a fill ring, nor with anybody. */
u32 xsk_memory_free(const struct xsk_memory *memory);

/* The socket */

/*
 * A socket on a queue of an interface of the calling thread's namespace (afterwards the thread may be in
 * any). Wants CAP_NET_RAW. A queue whose last socket has just closed stays busy for a moment: tries again for
 * up to a second, then -EBUSY.
 */
int xsk_open(struct xsk **xsk, struct xsk_memory *memory, const char *ifname, u32 queue, u32 flags);

/*
 * A socket that another process opened on this memory and never used, by its descriptor. Wants no privilege.
 * The descriptor is the caller's own still.
 */
int xsk_adopt(struct xsk **xsk, struct xsk_memory *memory, int fd);

/* The map that is pinned at a path, as a descriptor to be closed, or -errno. Wants CAP_BPF or root. */
int xsk_open_map(const char *path);

/*
 * The interface's frames come to the socket while it stands in an XSKMAP and a program redirects to it. The
 * kernel takes it out of the map by itself when it is closed. `map` is a descriptor. Wants CAP_BPF or root.
 */
int xsk_join(const struct xsk *xsk, int map, u32 key);

/* Frames that wait in its rings are lost; their chunks become free again. NULL is nothing. */
void xsk_close(struct xsk *xsk);

/* For poll() and for handing over; readable when frames wait. */
int xsk_fd(const struct xsk *xsk);
void xsk_statistics(const struct xsk *xsk, struct xsk_statistics *statistics);

/* Receiving */

/* Give the kernel free chunks to receive into, as many as it takes. Needed once before the first frame, and
 * after frames were released into the memory by xsk_memory_release or forwarded; xsk_release does it too. */
void xsk_refill(struct xsk *xsk);

/* At most so many chunks are to be in the fill ring: so that sockets share a memory fairly. XSK_RING unless
 * set. */
void xsk_limit_fill(struct xsk *xsk, u32 chunks);

/* Up to `most` frames that have come in, whole, in order. They are the caller's until released or forwarded.
 */
u32 xsk_receive(struct xsk *xsk, struct xsk_frame *frames, u32 most);

/* How many chunks of frames wait to be received: what is buffered for us, in chunks. */
u32 xsk_waiting(struct xsk *xsk);

/* Done with frames that came in by this socket: their chunks go back to the kernel. */
void xsk_release(struct xsk *xsk, const struct xsk_frame *frames, u32 count);

/* Done with one frame, whichever socket of the memory it came in by; xsk_refill hands it to the kernel. */
void xsk_memory_release(struct xsk_memory *memory, const struct xsk_frame *frame);

/* Sending */

/* The longest frame that can be built. */
u32 xsk_room(const struct xsk *xsk);

/* A flat buffer of xsk_room bytes for a frame; NULL while none is free or the transmit ring is full. At the
 * most one is reserved at a time; a second reserve without a commit gives the same. */
u8 *xsk_reserve(struct xsk *xsk);

/* Queue the frame that was built in the reserved buffer; 0 bytes: keep the buffer for the next. */
void xsk_commit(struct xsk *xsk, u8 *frame, u32 bytes);

/*
 * Queue a received frame, of any socket of the same memory, as it is: its headers may have been changed in
 * place. The chunks become free when it is sent. False, and the frame is the caller's still, while the
 * transmit ring is full.
 */
bool xsk_forward(struct xsk *xsk, const struct xsk_frame *frame);

/*
 * Let the kernel send what is queued. In copy mode it sends in here, a limited number of descriptors for each
 * call (32, or what XDP_MAX_TX_SKB_BUDGET allows): calls again until all is sent or the interface is full.
 * Returns how many descriptors still wait: not 0 means try again soon (an EAGAIN that stays, ENOBUFS, an
 * interface that is down); -ENXIO and the like are for good.
 */
int xsk_kick(struct xsk *xsk);

/* Whether the interface was down when it was last asked to send. */
bool xsk_is_down(const struct xsk *xsk);

/* Take back the chunks of frames that are sent. xsk_reserve and xsk_kick do it too. */
void xsk_recycle(struct xsk *xsk);
