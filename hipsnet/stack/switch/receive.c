// SPDX-License-Identifier: Apache-2.0
/* Handles received frames: consumes, drops, or forwards them; see switch/core.h. */
#include "switch/core.h"

enum { DSCP_SHIFT = 2 };

static bool is_link_local(const u8 *mac)
{
	return get32(mac) == get32(PFC_ADDRESS) && mac[4] == 0 && mac[5] < 16;
}

/* Frames to these addresses are not forwarded (IEEE 802.1Q, table 8-1). */
static void take_control(struct soft_switch *self, u32 ingress, struct span head, u64 now)
{
	struct switch_port *port = &self->port[ingress];
	struct view view = {head.data, head.bytes};
	struct pfc frame;

	if (!pfc_parse(&view, &frame)) {
		port->count->drop_control++;
		return;
	}
	port->count->pfc_frames++;
	pfc_receive(&port->pfc, &frame, now);
}

static u64 bridge_ports(struct soft_switch *self, u32 ingress, const u8 *frame, u64 now)
{
	struct port_counters *count = self->port[ingress].count;
	bool is_group = frame[ETHERNET_TO] & 1;

	bridge_learn(&self->bridge, frame + ETHERNET_FROM, (u8)ingress, now);
	int to = is_group ? -1 : bridge_find(&self->bridge, frame + ETHERNET_TO);

	if (to < 0) {
		u64 all = self->ports < SWITCH_PORTS ? port_bit(self->ports) - 1 : ~0ULL;

		count->flooded++;
		return all & ~port_bit(ingress);
	}
	count->drop_same_port += (u32)to == ingress;
	return (u32)to == ingress ? 0 : port_bit((u32)to);
}

static bool is_sound(const u8 *ip, u32 bytes)
{
	u32 header = (ip[IPV4_VERSION] & 15u) * 4;

	if (ip[IPV4_VERSION] >> 4 != 4 || header < IPV4_BYTES || get16(ip + IPV4_TOTAL) < header ||
	    get16(ip + IPV4_TOTAL) > bytes)
		return false;
	return header > IPV4_BYTES || ipv4_checksum(ip) == 0;
}

static u64 router_ports(struct soft_switch *self, u32 ingress, struct span head, u32 bytes)
{
	struct switch_port *port = &self->port[ingress];
	u8 *ip = head.data + ETHERNET_BYTES;

	if (memcmp(head.data + ETHERNET_TO, port->mac, MAC_BYTES) ||
	    !ethernet_is_ipv4(head.data, head.bytes)) {
		port->count->drop_not_ours++;
		return 0;
	}
	if (!is_sound(ip, bytes - ETHERNET_BYTES)) {
		port->count->drop_header++;
		return 0;
	}
	if (ip[IPV4_TTL] <= 1) {
		port->count->drop_ttl++;
		return 0;
	}
	const struct router_hop *hop = router_find(&self->router, ip, head.bytes - ETHERNET_BYTES);

	if (!hop) {
		port->count->drop_no_route++;
		return 0;
	}
	router_rewrite(head.data, hop, self->port[hop->port].mac);
	return port_bit(hop->port);
}

u64 switch_receive(struct soft_switch *self, u32 ingress, struct span head, u32 bytes, u8 *priority, u64 now)
{
	struct port_counters *count = self->port[ingress].count;

	if (head.bytes < ETHERNET_BYTES) {
		count->drop_truncated++;
		return 0;
	}
	if (bytes > switch_frame_bytes(self->longest_frame)) {
		count->drop_too_long++;
		return 0;
	}
	if (is_link_local(head.data + ETHERNET_TO)) {
		take_control(self, ingress, head, now);
		return 0;
	}
	*priority = ethernet_is_ipv4(head.data, head.bytes)
			    ? self->priority_of[head.data[ETHERNET_BYTES + IPV4_TOS] >> DSCP_SHIFT]
			    : 0;
	count->priority[*priority].rx_frames++;
	count->priority[*priority].rx_bytes += bytes;
	return self->routes ? router_ports(self, ingress, head, bytes)
			    : bridge_ports(self, ingress, head.data, now);
}
