/* SPDX-License-Identifier: Apache-2.0 */
/* A socket, private to xsk/open.c and xsk/xsk.c; see xsk/xsk.h. */
#pragma once

#include <linux/if_xdp.h>

#include "xsk/memory.h"

/* Newer than the distribution's headers. */
#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4) /* Linux 6.6 */
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

struct xsk {
	struct xsk_memory *memory;
	struct xsk_socket *socket; /* libxdp's; NULL for an adopted one */
	int fd;
	u8 number;        /* among the sockets of its memory */
	bool is_reserved; /* the caller has `reserved` */
	bool is_down;     /* the interface was down at the last xsk_kick */
	u32 fill_limit;
	u32 reserved; /* a frame of the send zone */
	struct xsk_ring_cons rx, completed;
	struct xsk_ring_prod tx, fill;
	void *maps[4]; /* rings of an adopted socket, and their sizes */
	size_t map_bytes[4];
	struct xsk_statistics count;
};
