// SPDX-License-Identifier: Apache-2.0
/* Opens AF_XDP sockets with libxdp, or adopts those of another process; see xsk/xsk.h. */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "xsk/socket.h"

#define SEND_BUDGET_OPTION 9   /* XDP_MAX_TX_SKB_BUDGET, Linux 6.17 */
#define SEND_BUDGET        256 /* descriptors per call; kernels without the option send 32 */
#define BUSY_TRIES         100
#define BUSY_SLEEP_NS      10000000L

static int open_once(struct xsk *xsk, const char *ifname, u32 queue, u32 flags)
{
	struct xsk_memory *memory = xsk->memory;
	const struct xsk_umem_config umem = {
		.fill_size = XSK_RING,
		.comp_size = XSK_RING,
		.frame_size = XSK_CHUNK_BYTES,
	};
	const struct xsk_socket_config config = {
		.rx_size = XSK_RING,
		.tx_size = XSK_RING,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = (u16)(XDP_USE_NEED_WAKEUP | XDP_USE_SG | (flags & XSK_COPY ? XDP_COPY : 0)),
	};
	bool is_first = !memory->umem;
	int error = 0;

	if (is_first)
		error = xsk_umem__create(&memory->umem, memory->area, memory->bytes, &xsk->fill,
					 &xsk->completed, &umem);
	if (!error)
		error = xsk_socket__create_shared(&xsk->socket, ifname, queue, memory->umem, &xsk->rx,
						  &xsk->tx, &xsk->fill, &xsk->completed, &config);
	if (error && is_first && memory->umem)
		xsk_umem__delete(memory->umem);
	if (error && is_first)
		memory->umem = NULL;
	return error;
}

static int start(struct xsk **made, struct xsk_memory *memory)
{
	struct xsk *xsk = calloc(1, sizeof(*xsk));

	if (!xsk)
		return -ENOMEM;
	xsk->memory = memory;
	xsk->fill_limit = XSK_RING;
	xsk->number = xsk_memory_enlist(memory);
	*made = xsk;
	if (xsk->number != XSK_NOBODY)
		return 0;
	free(xsk);
	return -EMFILE;
}

/* Undoes start(). */
static void abandon(struct xsk *xsk)
{
	xsk_memory_delist(xsk->memory, xsk->number);
	free(xsk);
}

static void raise_send_budget(int fd)
{
	const u32 budget = SEND_BUDGET;

	/* Kernels before 6.17 refuse it and send 32 at a time. */
	setsockopt(fd, SOL_XDP, SEND_BUDGET_OPTION, &budget, sizeof(budget));
}

int xsk_open(struct xsk **made, struct xsk_memory *memory, const char *ifname, u32 queue, u32 flags)
{
	const struct timespec moment = {.tv_nsec = BUSY_SLEEP_NS};
	struct xsk *xsk;
	int error = start(&xsk, memory);

	if (error)
		return error;
	error = open_once(xsk, ifname, queue, flags);
	for (int tries = 0; error == -EBUSY && tries < BUSY_TRIES; tries++) {
		nanosleep(&moment, NULL);
		error = open_once(xsk, ifname, queue, flags);
	}
	if (error) {
		abandon(xsk);
		return error;
	}
	xsk->fd = xsk_socket__fd(xsk->socket);
	raise_send_budget(xsk->fd);
	*made = xsk;
	return 0;
}

/* Adopting: the rings of a socket that is bound already */

/* The location of one ring. Producer and consumer rings of libxdp have the same layout. */
struct place {
	const struct xdp_ring_offset *offset;
	off_t page;
	u32 entry_bytes;
	struct xsk_ring_prod *ring;
	bool is_producer;
};

static int map_ring(struct xsk *xsk, int index, const struct place *place)
{
	size_t bytes = place->offset->desc + (size_t)XSK_RING * place->entry_bytes;
	u8 *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, xsk->fd, place->page);

	if (map == MAP_FAILED)
		return -errno;
	xsk->maps[index] = map;
	xsk->map_bytes[index] = bytes;
	*place->ring = (struct xsk_ring_prod){
		.mask = XSK_RING - 1,
		.size = XSK_RING,
		.producer = (u32 *)(map + place->offset->producer),
		.consumer = (u32 *)(map + place->offset->consumer),
		.flags = (u32 *)(map + place->offset->flags),
		.ring = map + place->offset->desc,
	};
	place->ring->cached_prod = *place->ring->producer;
	place->ring->cached_cons = *place->ring->consumer + (place->is_producer ? XSK_RING : 0);
	return 0;
}

static int map_rings(struct xsk *xsk)
{
	struct xdp_mmap_offsets offsets;
	socklen_t bytes = sizeof(offsets);

	if (getsockopt(xsk->fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &bytes))
		return -errno;
	const struct place places[] = {
		{&offsets.rx, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc), (struct xsk_ring_prod *)&xsk->rx,
		 false},
		{&offsets.tx, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc), &xsk->tx, true},
		{&offsets.fr, XDP_UMEM_PGOFF_FILL_RING, sizeof(u64), &xsk->fill, true},
		{&offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, sizeof(u64),
		 (struct xsk_ring_prod *)&xsk->completed, false},
	};
	int error = 0;

	for (int i = 0; i < 4 && !error; i++)
		error = map_ring(xsk, i, &places[i]);
	return error;
}

int xsk_adopt(struct xsk **made, struct xsk_memory *memory, int fd)
{
	struct xsk *xsk;
	int error = start(&xsk, memory);

	if (error)
		return error;
	xsk->fd = dup(fd);
	error = xsk->fd < 0 ? -errno : map_rings(xsk);
	if (error) {
		xsk_close(xsk);
		return error;
	}
	*made = xsk;
	return 0;
}

/* A queue stays busy as long as one of its rings is mapped. */
static void unadopt(struct xsk *xsk)
{
	for (int i = 0; i < 4; i++)
		if (xsk->maps[i])
			munmap(xsk->maps[i], xsk->map_bytes[i]);
	if (xsk->fd >= 0)
		close(xsk->fd);
}

void xsk_close(struct xsk *xsk)
{
	if (!xsk)
		return;
	struct xsk_memory *memory = xsk->memory;

	if (xsk->socket)
		xsk_socket__delete(xsk->socket);
	else
		unadopt(xsk);
	if (xsk->is_reserved)
		memory->frames.numbers[memory->frames.count++] = xsk->reserved;
	abandon(xsk);
	if (!memory->sockets && memory->umem && !xsk_umem__delete(memory->umem))
		memory->umem = NULL;
}

int xsk_open_map(const char *path)
{
	return bpf_obj_get(path);
}

int xsk_join(const struct xsk *xsk, int map, u32 key)
{
	return bpf_map_update_elem(map, &key, &xsk->fd, BPF_ANY);
}

int xsk_fd(const struct xsk *xsk)
{
	return xsk->fd;
}

void xsk_statistics(const struct xsk *xsk, struct xsk_statistics *statistics)
{
	struct xdp_statistics kernel = {0};
	socklen_t bytes = sizeof(kernel);

	getsockopt(xsk->fd, SOL_XDP, XDP_STATISTICS, &kernel, &bytes);
	*statistics = xsk->count;
	statistics->rx_dropped = kernel.rx_dropped;
	statistics->rx_invalid = kernel.rx_invalid_descs;
	statistics->tx_invalid = kernel.tx_invalid_descs;
	statistics->rx_ring_full = kernel.rx_ring_full;
	statistics->rx_fill_empty = kernel.rx_fill_ring_empty_descs;
	statistics->tx_ring_empty = kernel.tx_ring_empty_descs;
}
