// SPDX-License-Identifier: Apache-2.0
/* Moves frames through the rings of an AF_XDP socket; see xsk/xsk.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>

#include "xsk/socket.h"

/* Receiving */

void xsk_refill(struct xsk *xsk)
{
	struct xsk_memory *memory = xsk->memory;
	u32 filled = XSK_RING - xsk_prod_nb_free(&xsk->fill, XSK_RING), at;
	u32 room = filled < xsk->fill_limit ? xsk->fill_limit - filled : 0;
	u32 count = room < memory->chunks.count ? room : memory->chunks.count;

	if (!count || !xsk_ring_prod__reserve(&xsk->fill, count, &at))
		return;
	for (u32 i = 0; i < count; i++) {
		u32 chunk = memory->chunks.numbers[--memory->chunks.count];

		memory->holder[chunk] = xsk->number;
		*xsk_ring_prod__fill_addr(&xsk->fill, at + i) = (u64)chunk * XSK_CHUNK_BYTES;
	}
	xsk_ring_prod__submit(&xsk->fill, count);
	/* Zero-copy only: a driver that found the ring empty waits for a wake-up. */
	if (xsk_ring_prod__needs_wakeup(&xsk->fill))
		recvfrom(xsk->fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

void xsk_limit_fill(struct xsk *xsk, u32 chunks)
{
	xsk->fill_limit = chunks < XSK_RING ? chunks : XSK_RING;
}

u32 xsk_waiting(struct xsk *xsk)
{
	return __atomic_load_n(xsk->rx.producer, __ATOMIC_ACQUIRE) - xsk->rx.cached_cons;
}

/* Adds a chunk to a frame; true if it was the last. Chunks beyond XSK_MOST_SPANS are counted and freed. */
static bool add_span(struct xsk *xsk, struct xsk_frame *frame, const struct xdp_desc *descriptor)
{
	struct xsk_memory *memory = xsk->memory;

	memory->holder[chunk_of(descriptor->addr)] = XSK_NOBODY;
	if (frame->count < XSK_MOST_SPANS)
		frame->spans[frame->count] = (struct span){memory->area + descriptor->addr, descriptor->len};
	else
		memory->chunks.numbers[memory->chunks.count++] = chunk_of(descriptor->addr);
	frame->count++;
	frame->bytes += descriptor->len;
	return !(descriptor->options & XDP_PKT_CONTD);
}

/* False for a frame in more than three chunks, which is dropped. */
static bool is_whole(struct xsk *xsk, struct xsk_frame *frame)
{
	if (frame->count > XSK_MOST_SPANS) {
		frame->count = XSK_MOST_SPANS;
		xsk_memory_release(xsk->memory, frame);
		xsk->count.rx_foreign++;
		return false;
	}
	xsk->count.rx_frames++;
	xsk->count.rx_bytes += frame->bytes;
	return true;
}

u32 xsk_receive(struct xsk *xsk, struct xsk_frame *frames, u32 most)
{
	u32 at, count = 0, taken = 0;
	/* The kernel publishes whole frames, so the last descriptor ends a frame. */
	u32 waiting = xsk_ring_cons__peek(&xsk->rx, XSK_RING, &at);

	while (count < most && taken < waiting) {
		struct xsk_frame *frame = &frames[count];

		frame->count = frame->bytes = 0;
		while (taken < waiting &&
		       !add_span(xsk, frame, xsk_ring_cons__rx_desc(&xsk->rx, at + taken++)))
			continue;
		count += is_whole(xsk, frame);
	}
	if (waiting > taken)
		xsk_ring_cons__cancel(&xsk->rx, waiting - taken);
	if (taken)
		xsk_ring_cons__release(&xsk->rx, taken);
	return count;
}

void xsk_release(struct xsk *xsk, const struct xsk_frame *frames, u32 count)
{
	for (u32 i = 0; i < count; i++)
		xsk_memory_release(xsk->memory, &frames[i]);
	xsk_refill(xsk);
}

/* Sending */

u32 xsk_room(const struct xsk *xsk)
{
	return xsk->memory->geometry.frame_bytes;
}

static u64 address_of_frame(const struct xsk_memory *memory, u32 frame)
{
	return (memory->geometry.receive_chunks + (u64)frame * memory->frame_chunks) * XSK_CHUNK_BYTES;
}

u8 *xsk_reserve(struct xsk *xsk)
{
	struct xsk_memory *memory = xsk->memory;

	if (!memory->frames.count || xsk_prod_nb_free(&xsk->tx, memory->frame_chunks) < memory->frame_chunks)
		xsk_recycle(xsk);
	if ((!xsk->is_reserved && !memory->frames.count) ||
	    xsk_prod_nb_free(&xsk->tx, memory->frame_chunks) < memory->frame_chunks) {
		xsk->count.tx_full++;
		return NULL;
	}
	if (!xsk->is_reserved) {
		xsk->reserved = memory->frames.numbers[--memory->frames.count];
		xsk->is_reserved = true;
	}
	return memory->area + address_of_frame(memory, xsk->reserved);
}

/* The caller has checked that the ring has `count` free descriptors. */
static void queue(struct xsk *xsk, const struct span *spans, u32 count)
{
	struct xsk_memory *memory = xsk->memory;
	u32 at = 0, bytes = 0;

	xsk_ring_prod__reserve(&xsk->tx, count, &at);
	for (u32 i = 0; i < count; i++) {
		u64 address = address_of(memory, spans[i].data);

		memory->holder[chunk_of(address)] = xsk->number;
		*xsk_ring_prod__tx_desc(&xsk->tx, at + i) = (struct xdp_desc){
			.addr = address,
			.len = spans[i].bytes,
			.options = i + 1 < count ? XDP_PKT_CONTD : 0,
		};
		bytes += spans[i].bytes;
	}
	xsk_ring_prod__submit(&xsk->tx, count);
	xsk->count.tx_frames++;
	xsk->count.tx_bytes += bytes;
}

void xsk_commit(struct xsk *xsk, u8 *frame, u32 bytes)
{
	struct span spans[XSK_MOST_SPANS];
	u32 count = 0;

	if (!bytes)
		return;
	for (u32 done = 0; done < bytes; done += spans[count++].bytes) {
		u32 left = bytes - done;

		spans[count].data = frame + done;
		spans[count].bytes = left < XSK_CHUNK_BYTES ? left : XSK_CHUNK_BYTES;
	}
	xsk->is_reserved = false;
	xsk->memory->unsent[xsk->reserved] = (u8)count;
	queue(xsk, spans, count);
}

bool xsk_forward(struct xsk *xsk, const struct xsk_frame *frame)
{
	if (xsk_prod_nb_free(&xsk->tx, frame->count) < frame->count) {
		xsk->count.tx_full++;
		return false;
	}
	queue(xsk, frame->spans, frame->count);
	return true;
}

void xsk_recycle(struct xsk *xsk)
{
	u32 at, count = xsk_ring_cons__peek(&xsk->completed, XSK_RING, &at);

	for (u32 i = 0; i < count; i++)
		xsk_memory_sent(xsk->memory, *xsk_ring_cons__comp_addr(&xsk->completed, at + i));
	if (count)
		xsk_ring_cons__release(&xsk->completed, count);
}

static u32 unsent(const struct xsk *xsk)
{
	return xsk->tx.cached_prod - __atomic_load_n(xsk->tx.consumer, __ATOMIC_ACQUIRE);
}

/* Errors of an interface that is full, has dropped the frame, or is down: retry later. */
static bool is_passing(int error)
{
	return error == EAGAIN || error == EBUSY || error == ENOBUFS || error == EINTR || error == ENETDOWN;
}

bool xsk_is_down(const struct xsk *xsk)
{
	return xsk->is_down;
}

int xsk_kick(struct xsk *xsk)
{
	u32 left = unsent(xsk);

	while (left && xsk_ring_prod__needs_wakeup(&xsk->tx)) {
		int error = sendto(xsk->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 ? errno : 0;
		u32 before = left;

		xsk->count.kicks++;
		xsk->is_down = error == ENETDOWN;
		if (error && !is_passing(error))
			return -error;
		xsk_recycle(xsk);
		left = unsent(xsk);
		if (left == before)
			break;
	}
	return (int)left;
}
