/* SPDX-License-Identifier: Apache-2.0 */
/* Ethernet, 802.1Q tags, IPv4 and UDP; see wire/wire.h. RFC 791 and 768. */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "wire/bytes.h"

#define ETHERTYPE_IPV4        0x0800
#define ETHERTYPE_VLAN        0x8100
#define ETHERTYPE_MAC_CONTROL 0x8808
#define PROTOCOL_UDP          17

enum {
	MAC_BYTES = 6,
	ETHERNET_BYTES = 14,
	VLAN_BYTES = 4,
	IPV4_BYTES = 20,
	UDP_BYTES = 8,
};

/* Where the fields are. */
enum {
	ETHERNET_TO = 0,
	ETHERNET_FROM = 6,
	ETHERNET_TYPE = 12,

	IPV4_VERSION = 0,
	IPV4_TOS = 1,
	IPV4_TOTAL = 2,
	IPV4_ID = 4,
	IPV4_FRAGMENT = 6,
	IPV4_TTL = 8,
	IPV4_PROTOCOL = 9,
	IPV4_CHECKSUM = 10,
	IPV4_FROM = 12,
	IPV4_TO = 16,

	UDP_FROM = 0,
	UDP_TO = 2,
	UDP_LENGTH = 4,
	UDP_CHECKSUM = 6,
};

struct ethernet {
	u8 to[MAC_BYTES], from[MAC_BYTES];
	u16 type;
};

/* Follows an Ethernet header of type 802.1Q. */
struct vlan {
	u8 priority;
	u16 vid, type;
};

/* Explicit congestion notification, RFC 3168. */
enum ecn { ECN_NOT_CAPABLE, ECN_CAPABLE_1, ECN_CAPABLE_0, ECN_CONGESTED };

/* Headers with options and fragments are refused. Parsing verifies the checksum, emitting computes it. */
struct ipv4 {
	u32 from, to;
	u16 total, id;
	u8 dscp, ecn, ttl, protocol;
};

/* Sent with checksum 0, as RoCEv2 permits: the ICRC protects the datagram. Not verified when received. */
struct udp {
	u16 from, to, length;
};

static inline bool ethernet_parse(struct view *view, struct ethernet *value)
{
	const u8 *at = view_take(view, ETHERNET_BYTES);

	if (!at)
		return false;
	memcpy(value->to, at + ETHERNET_TO, MAC_BYTES);
	memcpy(value->from, at + ETHERNET_FROM, MAC_BYTES);
	value->type = get16(at + ETHERNET_TYPE);
	return true;
}

static inline bool ethernet_emit(struct room *room, const struct ethernet *value)
{
	u8 *at = room_take(room, ETHERNET_BYTES);

	if (!at)
		return false;
	memcpy(at + ETHERNET_TO, value->to, MAC_BYTES);
	memcpy(at + ETHERNET_FROM, value->from, MAC_BYTES);
	put16(at + ETHERNET_TYPE, value->type);
	return true;
}

/* Whether the frame's type is IPv4 and at least a whole IPv4 header follows. */
static inline bool ethernet_is_ipv4(const u8 *frame, u32 bytes)
{
	return bytes >= ETHERNET_BYTES + IPV4_BYTES && get16(frame + ETHERNET_TYPE) == ETHERTYPE_IPV4;
}

static inline bool vlan_parse(struct view *view, struct vlan *value)
{
	const u8 *at = view_take(view, VLAN_BYTES);

	if (!at)
		return false;
	value->priority = at[0] >> 5;
	value->vid = get16(at) & 0x0fff;
	value->type = get16(at + 2);
	return true;
}

static inline bool vlan_emit(struct room *room, const struct vlan *value)
{
	u8 *at = room_take(room, VLAN_BYTES);

	if (!at)
		return false;
	put16(at, (u16)(value->priority << 13 | (value->vid & 0x0fff)));
	put16(at + 2, value->type);
	return true;
}

/* The checksum of an IPv4 header without options; 0 if the header includes a correct one. RFC 1071. */
static inline u16 ipv4_checksum(const u8 *at)
{
	u32 sum = 0;

	for (u32 i = 0; i < IPV4_BYTES; i += 2)
		sum += get16(at + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)~sum;
}

static inline bool ipv4_parse(struct view *view, struct ipv4 *value)
{
	enum { VERSION_4_WITHOUT_OPTIONS = 0x45, MORE_OR_OFFSET = 0x3fff };
	const u8 *at = view->at;

	if (view->bytes < IPV4_BYTES || at[IPV4_VERSION] != VERSION_4_WITHOUT_OPTIONS ||
	    get16(at + IPV4_FRAGMENT) & MORE_OR_OFFSET || get16(at + IPV4_TOTAL) < IPV4_BYTES ||
	    ipv4_checksum(at))
		return false;
	view_take(view, IPV4_BYTES);
	value->dscp = at[IPV4_TOS] >> 2;
	value->ecn = at[IPV4_TOS] & 3;
	value->total = get16(at + IPV4_TOTAL);
	value->id = get16(at + IPV4_ID);
	value->ttl = at[IPV4_TTL];
	value->protocol = at[IPV4_PROTOCOL];
	value->from = get32(at + IPV4_FROM);
	value->to = get32(at + IPV4_TO);
	return true;
}

static inline bool ipv4_emit(struct room *room, const struct ipv4 *value)
{
	enum { DONT_FRAGMENT = 0x4000 };
	u8 *at = room_take(room, IPV4_BYTES);

	if (!at)
		return false;
	at[IPV4_VERSION] = 0x45;
	at[IPV4_TOS] = (u8)(value->dscp << 2 | (value->ecn & 3));
	put16(at + IPV4_TOTAL, value->total);
	put16(at + IPV4_ID, value->id);
	put16(at + IPV4_FRAGMENT, DONT_FRAGMENT);
	at[IPV4_TTL] = value->ttl;
	at[IPV4_PROTOCOL] = value->protocol;
	put16(at + IPV4_CHECKSUM, 0);
	put32(at + IPV4_FROM, value->from);
	put32(at + IPV4_TO, value->to);
	put16(at + IPV4_CHECKSUM, ipv4_checksum(at));
	return true;
}

static inline bool udp_parse(struct view *view, struct udp *value)
{
	const u8 *at = view->at;

	if (view->bytes < UDP_BYTES || get16(at + UDP_LENGTH) < UDP_BYTES)
		return false;
	view_take(view, UDP_BYTES);
	value->from = get16(at + UDP_FROM);
	value->to = get16(at + UDP_TO);
	value->length = get16(at + UDP_LENGTH);
	return true;
}

static inline bool udp_emit(struct room *room, const struct udp *value)
{
	u8 *at = room_take(room, UDP_BYTES);

	if (!at)
		return false;
	put16(at + UDP_FROM, value->from);
	put16(at + UDP_TO, value->to);
	put16(at + UDP_LENGTH, value->length);
	put16(at + UDP_CHECKSUM, 0);
	return true;
}
