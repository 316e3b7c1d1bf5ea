/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The delay of a cable. A frame that arrives on a delayed port goes into the port's ring with the time at
 * which it is due. The delay line, a process outside the kernel, sends it through the cable again at that
 * time, with a tag in front. The program removes the tag, and the frame has arrived.
 */
#pragma once

#include "delay_record.h"
#include "parse.h"
#include "tables.h"

#define DELAY_TPID bpf_htons(ETH_P_8021Q)
#define DELAY_TCI  bpf_htons(DELAY_VID)

/* By port index; `ring` is their template only: each is created when its cable gets a delay. */
#define RINGS(name)                                                                                          \
	BPF_RINGBUF_OUTPUT(ring, 1);                                                                         \
	BPF_ARRAY_OF_MAPS(name, "ring", MAX_PORTS)

/* The start of a frame from the delay line: its two MACs, then the tag. */
struct tagged {
	u32 macs[3];
	__be16 tpid;
	__be16 tci;
};

/* `room` must be a constant: the verifier requires a fixed reservation size. */
static __always_inline bool hold_in(void *ring, struct xdp_md *frame, u64 bytes, u64 due_ns, const u64 room)
{
	struct held *held = bpf_ringbuf_reserve(ring, sizeof(*held) + room, 0);

	if (!held)
		return false;
	held->due_ns = due_ns;
	held->bytes = bytes;
	/* Bounds for the verifier; the compiler would fold them into code that the verifier cannot follow.
	 * The lower one is signed: Linux 6.1's verifier learns nothing from "not zero". */
	asm volatile("" : "+r"(bytes));
	bool fits = bytes <= room;
	asm volatile("" : "+r"(bytes));
	if (!fits || (s64)bytes <= 0 || bpf_xdp_load_bytes(frame, 0, held->frame, bytes)) {
		bpf_ringbuf_discard(held, 0);
		return false;
	}
	bpf_ringbuf_submit(held, 0);
	return true;
}

static __always_inline bool hold(struct xdp_md *frame, void *ring, u32 delay_us)
{
	u64 due_ns = bpf_ktime_get_ns() + delay_us * 1000ULL;
	u64 bytes = bpf_xdp_get_buff_len(frame);

	if (!ring)
		return false;
	if (bytes <= 128)
		return hold_in(ring, frame, bytes, due_ns, 128);
	if (bytes <= 1536)
		return hold_in(ring, frame, bytes, due_ns, 1536);
	if (bytes <= 4352)
		return hold_in(ring, frame, bytes, due_ns, 4352);
	return hold_in(ring, frame, bytes, due_ns, MAX_HELD_BYTES);
}

/* Removes the delay line's tag; false if the frame has none. */
static __always_inline bool take_delay_tag(struct xdp_md *frame)
{
	struct cursor cursor = cursor_of(frame);
	struct tagged *tagged = take(&cursor, sizeof(*tagged));

	if (!tagged || tagged->tpid != DELAY_TPID || tagged->tci != DELAY_TCI)
		return false;

	/* The tag is one word long: move the MACs over it. */
	u32 *word = (u32 *)tagged;
	word[3] = word[2];
	word[2] = word[1];
	word[1] = word[0];
	return bpf_xdp_adjust_head(frame, sizeof(*word)) == 0;
}

/*
 * XDP_PASS if the frame has arrived at this end of its cable, otherwise its verdict. A frame is counted once,
 * and may be lost once: a delayed one is counted when its delay is over. `ring` is for a delayed port.
 */
static __always_inline int pass_cable(struct xdp_md *frame, const struct port *port, void *ring,
				      struct counters *count, u64 *bytes)
{
	u64 *reason = NULL;

	if (!port->delay_us || !take_delay_tag(frame)) {
		if (is_lost(port)) {
			reason = &count->drop_loss;
		} else if (port->delay_us) {
			if (hold(frame, ring, port->delay_us))
				return XDP_DROP;
			reason = &count->drop_delay_full;
		}
	}
	count->rx_frames++;
	*bytes = bpf_xdp_get_buff_len(frame);
	count->rx_bytes += *bytes;
	return reason ? drop(reason) : XDP_PASS;
}
