// SPDX-License-Identifier: Apache-2.0
/* Writing a packet: the pair's headers, what this packet adds, and its payload in one pass with the ICRC. */
#include "roce/icrc.h"
#include "roce/pair.h"

/* Where in a frame that lies in several buffers the next byte goes. */
struct pen {
	const struct span *spans;
	u32 at; /* in the first of them */
};

/* A place for the next of these bytes, of which there is at least one, and how many of them go there. */
static u8 *pen_take(struct pen *pen, u32 bytes, u32 *here)
{
	for (; pen->at == pen->spans->bytes; pen->spans++)
		pen->at = 0;
	u32 room = pen->spans->bytes - pen->at;
	u8 *at = pen->spans->data + pen->at;

	*here = bytes < room ? bytes : room;
	pen->at += *here;
	return at;
}

static void pen_write(struct pen *pen, const u8 *data, u32 bytes)
{
	for (u32 here; bytes; data += here, bytes -= here) {
		u8 *at = pen_take(pen, bytes, &here);

		memcpy(at, data, here);
	}
}

static u32 pen_copy(struct pen *pen, const u8 *data, u32 bytes, u32 icrc)
{
	for (u32 here; bytes; data += here, bytes -= here) {
		u8 *at = pen_take(pen, bytes, &here);

		icrc = icrc_copy(icrc, at, data, here);
	}
	return icrc;
}

/* The template of all packets of a pair. */
void build_header(struct rc *rc)
{
	const struct rc_config *config = &rc->config;
	struct room room = {.at = rc->header, .bytes = sizeof(rc->header)};
	struct ethernet ethernet = {.type = ETHERTYPE_IPV4};
	struct ipv4 ip = {
		.from = config->local_ip,
		.to = config->peer_ip,
		.ttl = config->ttl,
		.protocol = PROTOCOL_UDP,
	};
	struct udp udp = {.from = config->source_port, .to = ROCE_PORT};
	struct bth bth = {.pkey = DEFAULT_PKEY, .qpn = config->peer_qpn};

	memcpy(ethernet.to, config->peer_mac, MAC_BYTES);
	memcpy(ethernet.from, config->local_mac, MAC_BYTES);
	ethernet_emit(&room, &ethernet);
	ipv4_emit(&room, &ip);
	udp_emit(&room, &udp);
	bth_emit(&room, &bth);
	rc->ip_sum = (u16)~get16(rc->header + ETHERNET_BYTES + IPV4_CHECKSUM);
}

/* Writes the headers: the template with this packet's fields. Returns their length. */
static u32 put_headers(const struct rc *rc, const struct draft *draft, u8 *at, u32 pad, u32 total)
{
	u8 *ip = at + ETHERNET_BYTES, *udp = ip + IPV4_BYTES, *bth = udp + UDP_BYTES;
	u32 sum = rc->ip_sum + total + draft->tos;
	struct room room = {.at = bth + BTH_BYTES, .bytes = RC_HEADER_MAX - HEADER_BYTES};

	memcpy(at, rc->header, HEADER_BYTES);
	ip[IPV4_TOS] = draft->tos;
	put16(ip + IPV4_TOTAL, (u16)total);
	sum = (sum & 0xffff) + (sum >> 16);
	put16(ip + IPV4_CHECKSUM, (u16) ~((sum & 0xffff) + (sum >> 16)));
	put16(udp + UDP_LENGTH, (u16)(total - IPV4_BYTES));
	bth[BTH_OPCODE] = draft->opcode;
	bth[BTH_FLAGS] = (u8)(bth[BTH_FLAGS] | pad << 4);
	bth[BTH_CONGESTION] = draft->becn ? 0x40 : 0;
	bth[BTH_ACK_REQUEST] = draft->ack_request ? 0x80 : 0;
	put24(bth + BTH_PSN, draft->psn);
	if (draft->reth)
		reth_emit(&room, draft->reth);
	if (draft->aeth)
		aeth_emit(&room, draft->aeth);
	if (draft->immediate)
		immediate_emit(&room, *draft->immediate);
	return (u32)(room.at - at);
}

/* Returns the frame's length; 0 if the buffers are too short. */
u32 build_frame(const struct rc *rc, const struct draft *draft, const struct span *out, u32 spans)
{
	static const u8 nothing[CNP_BYTES];
	u32 headers = HEADER_BYTES + (draft->reth ? RETH_BYTES : 0) + (draft->aeth ? AETH_BYTES : 0) +
		      (draft->immediate ? IMMEDIATE_BYTES : 0);
	u32 pad = -draft->bytes & 3, frame = headers + draft->bytes + pad + ICRC_BYTES, room = 0;
	u8 tail[3 + ICRC_BYTES] = {0};

	for (u32 i = 0; i < spans; i++)
		room += out[i].bytes;
	if (room < frame || out[0].bytes < headers)
		return 0;
	put_headers(rc, draft, out[0].data, pad, frame - ETHERNET_BYTES);
	struct pen pen = {.spans = out, .at = headers};
	u32 icrc = icrc_headers(out[0].data + ETHERNET_BYTES, headers - ETHERNET_BYTES);

	icrc = pen_copy(&pen, draft->payload ? draft->payload : nothing, draft->bytes, icrc);
	icrc_emit(tail + pad, icrc_add(icrc, tail, pad));
	pen_write(&pen, tail, pad + ICRC_BYTES);
	return frame;
}
