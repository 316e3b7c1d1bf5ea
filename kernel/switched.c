// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The end of a server's cable at a soft switch (hipsnet/stack/switch/soft_switch.c): hands every frame to the
 * switch's socket, after the injected loss and the delay of the cable. */
#include "arrival.h"

BPF_XSKMAP(endpoints, MAX_PORTS); /* AF_XDP sockets of the ports' first queues */

int switched(struct xdp_md *frame)
{
	struct arrival at;

	if (!arrive(frame, &at, XDP_DROP))
		return at.verdict;
	if (frame->rx_queue_index || endpoints.redirect_map(at.index, 0) != XDP_REDIRECT)
		return drop(&at.count->drop_no_switch);
	at.count->switched++;
	return XDP_REDIRECT;
}
