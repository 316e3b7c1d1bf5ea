// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The switch end of a server's cable: passes every frame on, after the injected loss and the counters. */
#include "arrival.h"

int cable(struct xdp_md *frame)
{
	struct arrival at;

	if (!arrive(frame, &at, XDP_PASS))
		return at.verdict;

	struct cursor cursor = cursor_of(frame);
	struct ethhdr *eth = take_ethernet(&cursor);
	if (eth && eth->h_proto == bpf_htons(ETHERTYPE_MAC_CONTROL)) {
		struct mac_control *control = take_mac_control(&cursor);

		if (control && is_pfc(eth, control))
			count_pfc(at.count, control->class_enable);
	}
	return up(&at.count->passed);
}
