// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The sink of a measurement: counts every frame and drops it. */

BPF_PERCPU_ARRAY(arrived, u64, 1);

int sink(struct xdp_md *frame)
{
	u32 first = 0;
	u64 *frames = arrived.lookup(&first);

	if (frames)
		(*frames)++;
	return XDP_DROP;
}
