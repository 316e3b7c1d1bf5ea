/* A generator for measurements: the kernel's test-run recycles its frames, so each gets fresh headers here.
 */
#include "parse.h"

#define HEADERS_BYTES 34

/* bcc describes an array of a plain number of bytes only. */
struct headers {
	u8 bytes[HEADERS_BYTES];
};

_Static_assert(HEADERS_BYTES == sizeof(struct ethhdr) + sizeof(struct iphdr), "Ethernet and IPv4");

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
	/* Out of the interface that the frame is said to have come in by. */
	return XDP_TX;
}
