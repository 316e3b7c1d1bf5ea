// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* A generator for measurements: the kernel's test-run recycles its frames, so each gets new headers here. */
#include "parse.h"

#define FRESH_WORDS 9

/* Ethernet, IPv4 and a part of UDP, as words: bytes would be copied one by one. */
struct headers {
	u32 words[FRESH_WORDS];
};

_Static_assert(sizeof(struct headers) >= sizeof(struct ethhdr) + sizeof(struct iphdr),
	       "all that a router changes");

BPF_ARRAY(headers, struct headers, 1);

int generate(struct xdp_md *frame)
{
	u32 first = 0;
	struct headers *fresh = headers.lookup(&first);
	struct cursor cursor = cursor_of(frame);
	struct headers *stale = take(&cursor, sizeof(*stale));

	if (!fresh || !stale)
		return XDP_DROP;
	*stale = *fresh;
	/* Out of the interface that the test-run names as ingress. */
	return XDP_TX;
}
