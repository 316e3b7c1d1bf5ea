// SPDX-License-Identifier: Apache-2.0
/* Reading a RoCEv2 packet. */
#include "roce/packet.h"

#include "roce/icrc.h"

/* clang-format off */
static const u16 PARTS[256] = {
	[OP_SEND_FIRST]           = PART_KNOWN | PART_SEND | PART_FIRST,
	[OP_SEND_MIDDLE]          = PART_KNOWN | PART_SEND,
	[OP_SEND_LAST]            = PART_KNOWN | PART_SEND | PART_LAST,
	[OP_SEND_LAST_IMMEDIATE]  = PART_KNOWN | PART_SEND | PART_LAST | PART_IMMEDIATE,
	[OP_SEND_ONLY]            = PART_KNOWN | PART_SEND | PART_FIRST | PART_LAST,
	[OP_SEND_ONLY_IMMEDIATE]  = PART_KNOWN | PART_SEND | PART_FIRST | PART_LAST | PART_IMMEDIATE,
	[OP_WRITE_FIRST]          = PART_KNOWN | PART_WRITE | PART_FIRST | PART_RETH,
	[OP_WRITE_MIDDLE]         = PART_KNOWN | PART_WRITE,
	[OP_WRITE_LAST]           = PART_KNOWN | PART_WRITE | PART_LAST,
	[OP_WRITE_LAST_IMMEDIATE] = PART_KNOWN | PART_WRITE | PART_LAST | PART_IMMEDIATE,
	[OP_WRITE_ONLY]           = PART_KNOWN | PART_WRITE | PART_FIRST | PART_LAST | PART_RETH,
	[OP_WRITE_ONLY_IMMEDIATE] = PART_KNOWN | PART_WRITE | PART_FIRST | PART_LAST | PART_RETH | PART_IMMEDIATE,
	[OP_READ_REQUEST]         = PART_KNOWN | PART_UNSUPPORTED,
	[OP_ACKNOWLEDGE]          = PART_KNOWN | PART_AETH,
	[OP_COMPARE_SWAP]         = PART_KNOWN | PART_UNSUPPORTED,
	[OP_FETCH_ADD]            = PART_KNOWN | PART_UNSUPPORTED,
	[OP_SEND_LAST_INVALIDATE] = PART_KNOWN | PART_UNSUPPORTED,
	[OP_SEND_ONLY_INVALIDATE] = PART_KNOWN | PART_UNSUPPORTED,
	[OP_CNP]                  = PART_KNOWN | PART_CNP,
};
/* clang-format on */

/* Advances to the IPv4 header, past at most one VLAN tag. */
static enum drop parse_link(struct view *view)
{
	struct ethernet ethernet;
	struct vlan vlan;

	if (!ethernet_parse(view, &ethernet))
		return DROP_truncated;
	u16 type = ethernet.type;

	if (type == ETHERTYPE_VLAN) {
		if (!vlan_parse(view, &vlan))
			return DROP_truncated;
		type = vlan.type;
	}
	return type == ETHERTYPE_IPV4 ? DROP_COUNT : DROP_not_ipv4;
}

/* IPv4 and UDP; `bytes` is the length of the frame from here on. */
static enum drop parse_datagram(struct view *view, u32 bytes, struct packet *packet)
{
	struct udp udp;

	if (view->bytes < IPV4_BYTES)
		return DROP_truncated;
	if (!ipv4_parse(view, &packet->ip))
		return DROP_ipv4_header;
	if (packet->ip.total > bytes)
		return DROP_truncated;
	if (packet->ip.protocol != PROTOCOL_UDP)
		return DROP_not_roce;
	if (!udp_parse(view, &udp))
		return view->bytes < UDP_BYTES ? DROP_truncated : DROP_lengths;
	if (udp.to != ROCE_PORT)
		return DROP_not_roce;
	return udp.length == packet->ip.total - IPV4_BYTES ? DROP_COUNT : DROP_lengths;
}

static enum drop parse_transport(struct view *view, struct packet *packet)
{
	if (view->bytes < BTH_BYTES)
		return DROP_truncated;
	if (!bth_parse(view, &packet->bth) || packet->bth.pkey != DEFAULT_PKEY)
		return DROP_bth_header;
	packet->parts = PARTS[packet->bth.opcode];
	if (!(packet->parts & PART_KNOWN))
		return DROP_opcode;
	if (packet->parts & PART_RETH && !reth_parse(view, &packet->reth))
		return DROP_truncated;
	if (packet->parts & PART_AETH && !aeth_parse(view, &packet->aeth))
		return DROP_truncated;
	if (packet->parts & PART_IMMEDIATE && !immediate_parse(view, &packet->immediate))
		return DROP_truncated;
	return DROP_COUNT;
}

enum drop packet_parse(const struct span *frame, u32 spans, struct packet *packet)
{
	struct view view = {.at = frame[0].data, .bytes = frame[0].bytes};
	u32 bytes = 0;

	for (u32 i = 0; i < spans; i++)
		bytes += frame[i].bytes;
	enum drop drop = parse_link(&view);

	packet->ip_at = frame[0].bytes - view.bytes;
	if (drop == DROP_COUNT)
		drop = parse_datagram(&view, bytes - packet->ip_at, packet);
	if (drop == DROP_COUNT)
		drop = parse_transport(&view, packet);
	if (drop != DROP_COUNT)
		return drop;
	packet->payload_at = frame[0].bytes - view.bytes;
	u32 end = packet->ip_at + packet->ip.total;

	if (packet->payload_at + packet->bth.pad + ICRC_BYTES > end)
		return DROP_lengths;
	packet->payload = end - packet->payload_at - packet->bth.pad - ICRC_BYTES;
	return DROP_COUNT;
}

bool packet_icrc_holds(const struct span *frame, u32 spans, const struct packet *packet)
{
	u32 headers = packet->payload_at - packet->ip_at, begin = packet->payload_at;
	u32 icrc = icrc_headers(frame[0].data + packet->ip_at, headers);
	u32 left = packet->payload + packet->bth.pad, found = 0, shift = 0;

	for (u32 i = 0; i < spans; i++) {
		u32 here = frame[i].bytes - begin, at = begin;
		u32 summed = here < left ? here : left;

		icrc = icrc_add(icrc, frame[i].data + at, summed);
		left -= summed;
		at += summed;
		for (; !left && at < frame[i].bytes && shift < 32; at++, shift += 8)
			found |= (u32)frame[i].data[at] << shift;
		begin = 0;
	}
	return found == icrc;
}

void packet_copy_payload(const struct span *frame, const struct packet *packet, u8 *to)
{
	u32 left = packet->payload, begin = packet->payload_at;

	for (; left; frame++, begin = 0) {
		u32 here = frame->bytes - begin;
		u32 bytes = here < left ? here : left;

		memcpy(to, frame->data + begin, bytes);
		to += bytes;
		left -= bytes;
	}
}
