/* SPDX-License-Identifier: Apache-2.0 */
/* XDP wires of two ranks in this process, over AF_XDP sockets that the parent process has opened. */
#pragma once

#include "engine/wire/wire.h"

/* The variable XDP_SOCKETS has the three numbers of struct xsk_geometry, and the descriptors of the memory
 * and of the socket of either end of the cable. */
const struct wire_operations *xdp_open_wires(void **wires);
void xdp_close_wires(void **wires);
