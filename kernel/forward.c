// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* A server's port: packets for this server go up the stack, packets for others leave by the right port. */
#include "arrival.h"
#include "storm.h"

BPF_LPM_TRIE(table, struct prefix, struct next_hop, MAX_PREFIXES);
BPF_DEVMAP(transmit, MAX_PORTS);
BPF_XSKMAP(endpoints, MAX_PORTS); /* AF_XDP sockets of the ports' first queues */

BPF_F_TABLE("array", u32, struct pauses, pauses, MAX_PORTS, BPF_F_MMAPABLE);

#define FRAMES_PER_MTU 256

/* To the socket of the port's endpoint; false if there is no endpoint, or none on this queue. */
static __always_inline bool hand_over(struct xdp_md *frame, const struct arrival *at)
{
	return frame->rx_queue_index == 0 && endpoints.redirect_map(at->index, 0) == XDP_REDIRECT;
}

/*
 * A MAC consumes its control frames, and so does this program unless an endpoint takes them. Forwarded frames
 * honour a pause from now on; the endpoint's own frames from its next poll.
 */
static __always_inline int mac_control(struct xdp_md *frame, const struct arrival *at, struct cursor *cursor,
				       const struct ethhdr *eth)
{
	struct mac_control *control = take_mac_control(cursor);
	u32 index = at->index;

	if (!control || !is_pfc(eth, control))
		return drop(&at->count->drop_mac_control);
	count_pfc(at->count, control->class_enable);
	struct pauses *port = pauses.lookup(&index);
	if (port)
		honour(port, control->class_enable, control->quanta);
	if (!hand_over(frame, at))
		return drop(&at->count->drop_pfc);
	at->count->local_pfc++;
	return XDP_REDIRECT;
}

/* The counter of what is wrong with a header (RFC 1812, section 5.2.2); NULL for a valid one. */
static __always_inline u64 *fault_of(const struct iphdr *ip, u64 bytes, struct counters *count)
{
	u32 header = ip->ihl * 4, total = bpf_ntohs(ip->tot_len);

	if (ip->version != 4)
		return &count->drop_version;
	if (header < sizeof(*ip) || header > bytes)
		return &count->drop_header_length;
	if (total < header || total > bytes)
		return &count->drop_total_length;
	/* A header with options goes up, where the kernel verifies all of it. */
	if (header == sizeof(*ip) && !checksum_holds(ip))
		return &count->drop_checksum;
	return NULL;
}

static __always_inline bool is_own(const u32 *address)
{
	struct prefix key = {.bits = 32};

	__builtin_memcpy(key.address, address, sizeof(key.address));
	struct next_hop *hop = table.lookup(&key);

	return hop && hop->action == ACTION_LOCAL;
}

/* Sources that no packet on a cable can have: RFC 1812, sections 4.2.2.11, 5.3.7 and 5.3.8. */
static __always_inline bool is_martian(const struct iphdr *ip)
{
	u32 source = bpf_ntohl(ip->saddr), network = source >> 24;

	return network == 0 || network == IN_LOOPBACKNET || (source & 0xf0000000) == 0xe0000000 ||
	       source == INADDR_BROADCAST || is_own(&ip->saddr);
}

/*
 * The program is not notified of a new MTU, and bpf_check_mtu() costs as much as the look-up of the route: a
 * positive answer is kept for some frames.
 */
static __always_inline bool fits(struct xdp_md *frame, struct port *egress, u32 bytes, u64 frames)
{
	u32 mtu = bytes;

	if (bytes <= egress->mtu && frames % FRAMES_PER_MTU)
		return true;
	long answer = bpf_check_mtu(frame, egress->ifindex, &mtu, 0, 0);
	/* An interface that is gone: leave it to the redirection to fail. */
	if (answer < 0)
		return true;
	egress->mtu = mtu;
	return answer == 0;
}

static __always_inline void readdress(struct ethhdr *eth, struct iphdr *ip, const struct port *egress,
				      const struct next_hop *hop)
{
	copy_mac(eth->h_source, egress->mac);
	copy_mac(eth->h_dest, hop->mac);
	decrement_ttl(ip);
}

static __always_inline int send(struct xdp_md *frame, const struct arrival *at, struct ethhdr *eth,
				struct iphdr *ip, const struct next_hop *hop)
{
	struct counters *count = at->count;
	u32 out = hop->port;
	struct port *egress = ports.lookup(&out);
	struct counters *egress_count = counters.lookup(&out);

	if (!egress || !egress_count || is_zero_mac(hop->mac))
		return up(&count->up_unresolved);

	if (!fits(frame, egress, bpf_ntohs(ip->tot_len), egress_count->tx_frames))
		return up(&count->up_mtu);

	struct pauses *paused = pauses.lookup(&out);
	u32 priority = paused ? paused->priority_of[ip->tos >> 2] % PAUSE_PRIORITIES : 0;
	enum way way = paused ? way_out(paused, priority, at->index) : WAY_OPEN;

	if (way == WAY_LOST)
		return drop(&count->drop_storm);
	if (paused && way == WAY_HELD && hand_over(frame, at)) {
		__sync_fetch_and_add(&paused->buffered[priority], 1);
		readdress(eth, ip, egress, hop);
		count->buffered++;
		return XDP_REDIRECT;
	}

	/* Before the frame is changed: if there is no such port the kernel gets it as it came. */
	if (transmit.redirect_map(out, 0) != XDP_REDIRECT)
		return up(&count->up_unresolved);

	readdress(eth, ip, egress, hop);
	count->forwarded++;
	egress_count->tx_frames++;
	egress_count->tx_bytes += at->bytes;
	return XDP_REDIRECT;
}

static __always_inline int deliver(struct xdp_md *frame, const struct arrival *at, struct cursor *cursor,
				   const struct iphdr *ip)
{
	if (!is_roce(cursor, ip) || !hand_over(frame, at))
		return up(&at->count->local);
	at->count->local_roce++;
	return XDP_REDIRECT;
}

static __always_inline int route(struct xdp_md *frame, const struct arrival *at, struct cursor *cursor,
				 struct ethhdr *eth)
{
	struct counters *count = at->count;
	struct iphdr *ip = take_ipv4(cursor);

	if (!ip)
		return at->bytes < sizeof(*eth) + sizeof(*ip) ? drop(&count->drop_truncated)
							      : up(&count->up_split_header);

	u64 *fault = fault_of(ip, at->bytes - sizeof(*eth), count);
	if (fault)
		return drop(fault);
	if (is_martian(ip))
		return drop(&count->drop_martian);

	struct prefix destination = {.bits = 32};
	__builtin_memcpy(destination.address, &ip->daddr, sizeof(destination.address));
	struct next_hop *hop = table.lookup(&destination);

	if (!hop)
		return up(&count->up_no_route);
	if (hop->action == ACTION_LOCAL)
		return deliver(frame, at, cursor, ip);
	if (ip->ihl > 5)
		return up(&count->up_options);
	if (ip->ttl <= 1)
		return up(&count->up_ttl);
	return send(frame, at, eth, ip, hop);
}

int forward(struct xdp_md *frame)
{
	struct arrival at;

	if (!arrive(frame, &at, XDP_PASS))
		return at.verdict;

	struct cursor cursor = cursor_of(frame);
	struct ethhdr *eth = take_ethernet(&cursor);
	if (!eth)
		return drop(&at.count->drop_truncated);

	switch (bpf_ntohs(eth->h_proto)) {
	case ETH_P_IP:
		break;
	case ETH_P_ARP:
		return up(&at.count->up_arp);
	case ETH_P_8021Q:
	case ETH_P_8021AD:
		return up(&at.count->up_vlan);
	case ETHERTYPE_MAC_CONTROL:
		return mac_control(frame, &at, &cursor, eth);
	default:
		return up(&at.count->up_protocol);
	}

	if (eth->h_dest[0] & 1)
		return up(&at.count->up_multicast);
	if (!same_mac(eth->h_dest, at.port->mac))
		return up(&at.count->up_foreign_mac);
	return route(frame, &at, &cursor, eth);
}
