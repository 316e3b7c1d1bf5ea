/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* A cursor over the headers of a frame; every step checks its bounds. */
#pragma once

#include <uapi/linux/bpf.h>
#include <uapi/linux/if_ether.h>
#include <uapi/linux/in.h>
#include <uapi/linux/ip.h>
#include <uapi/linux/udp.h>

#define ETHERTYPE_MAC_CONTROL 0x8808 /* IEEE 802.3 clause 31 */
#define MAC_CONTROL_PFC       0x0101 /* IEEE 802.3 annex 31D */
#define MORE_OR_OFFSET        0x3fff /* of IPv4's word of flags and offset: set in a fragment */
#define ROCE_PORT             4791   /* IBTA annex A17 */

/* The start of the next header, and the end of the frame's first buffer. */
struct cursor {
	void *next;
	void *end;
};

struct mac_control {
	__be16 opcode;
	__be16 class_enable;
	__be16 quanta[8];
};

static __always_inline struct cursor cursor_of(struct xdp_md *frame)
{
	struct cursor cursor = {
		.next = (void *)(long)frame->data,
		.end = (void *)(long)frame->data_end,
	};

	return cursor;
}

static __always_inline void *take(struct cursor *cursor, u32 bytes)
{
	void *header = cursor->next;

	if (header + bytes > cursor->end)
		return NULL;
	cursor->next = header + bytes;
	return header;
}

static __always_inline struct ethhdr *take_ethernet(struct cursor *cursor)
{
	return take(cursor, sizeof(struct ethhdr));
}

/* The header without its options. */
static __always_inline struct iphdr *take_ipv4(struct cursor *cursor)
{
	return take(cursor, sizeof(struct iphdr));
}

static __always_inline struct mac_control *take_mac_control(struct cursor *cursor)
{
	return take(cursor, sizeof(struct mac_control));
}

static __always_inline bool is_pfc(const struct ethhdr *eth, const struct mac_control *control)
{
	/* PFC has one destination address: 01:80:c2:00:00:01. */
	const __be16 *to = (const __be16 *)eth->h_dest;

	return to[0] == bpf_htons(0x0180) && to[1] == bpf_htons(0xc200) && to[2] == bpf_htons(0x0001) &&
	       control->opcode == bpf_htons(MAC_CONTROL_PFC);
}

/* Takes the UDP header behind an IPv4 header without options. Endpoints get no fragments. */
static __always_inline bool is_roce(struct cursor *cursor, const struct iphdr *ip)
{
	if (ip->ihl != 5 || ip->protocol != IPPROTO_UDP || ip->frag_off & bpf_htons(MORE_OR_OFFSET))
		return false;
	struct udphdr *udp = take(cursor, sizeof(*udp));

	return udp && udp->dest == bpf_htons(ROCE_PORT);
}

/* MACs are handled as words: the compiler would handle arrays of bytes byte by byte. */
static __always_inline bool same_mac(const u8 *a, const u8 *b)
{
	const u16 *x = (const u16 *)a, *y = (const u16 *)b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2];
}

static __always_inline bool is_zero_mac(const u8 *mac)
{
	const u16 *word = (const u16 *)mac;

	return !(word[0] | word[1] | word[2]);
}

static __always_inline void copy_mac(u8 *to, const u8 *from)
{
	const u16 *word = (const u16 *)from;
	u16 *copy = (u16 *)to;

	copy[0] = word[0];
	copy[1] = word[1];
	copy[2] = word[2];
}

/* Whether the checksum of a header without options is correct. RFC 1071, section 2 (C): larger words, folded.
 */
static __always_inline bool checksum_holds(const struct iphdr *ip)
{
	const u32 *words = (const u32 *)ip;
	u64 sum = 0;

#pragma unroll
	for (int i = 0; i < sizeof(*ip) / sizeof(*words); i++)
		sum += words[i];
#pragma unroll
	for (int fold = 0; fold < 3; fold++)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* Updates the checksum incrementally: RFC 1141. */
static __always_inline void decrement_ttl(struct iphdr *ip)
{
	u32 check = (__force u32)ip->check + (__force u32)bpf_htons(0x0100);

	ip->check = (__force __sum16)(check + (check >= 0xffff));
	ip->ttl--;
}
