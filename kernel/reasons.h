/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The fates of a frame: each is counted under exactly one of these names. Python parses this list. */
#pragma once

/* clang-format off */
#define REASONS(REASON)                                                                        \
	REASON(forwarded,          "sent on to the next hop")                                  \
	REASON(buffered,           "to leave by a paused port: handed to the endpoint's buffer") \
	REASON(local,              "for this node: up the stack")                              \
	REASON(local_roce,         "RoCE for this node: to the socket of its endpoint")        \
	REASON(local_pfc,          "PFC, counted by priority: to the socket of the port's endpoint") \
	REASON(passed,             "passed unexamined by the end of a cable")                  \
	REASON(switched,           "to the socket of a soft switch")                           \
	REASON(up_arp,             "ARP: up the stack")                                        \
	REASON(up_vlan,            "carries an 802.1Q or 802.1ad tag: up the stack")           \
	REASON(up_protocol,        "neither IPv4 nor ARP: up the stack")                       \
	REASON(up_multicast,       "to a broadcast or multicast MAC: up the stack")            \
	REASON(up_foreign_mac,     "to a MAC that is not this port's: up the stack")           \
	REASON(up_options,         "has IPv4 options: up, forwarded by the kernel")            \
	REASON(up_ttl,             "TTL expires here: up, answered by the kernel")             \
	REASON(up_no_route,        "no entry in the table: up, routed or answered by the kernel") \
	REASON(up_unresolved,      "next hop without MAC or egress port: up, resolved by the kernel") \
	REASON(up_mtu,             "too big for the egress port: up, fragmented or answered by the kernel") \
	REASON(up_split_header,    "headers are not in the first buffer: up the stack")        \
	REASON(drop_loss,          "injected loss: the port's loss_ppm")                       \
	REASON(drop_delay_full,    "the ring of the delayed port was full")                    \
	REASON(drop_no_switch,     "for a soft switch that is not running")                    \
	REASON(drop_truncated,     "ends inside a header")                                     \
	REASON(drop_version,       "IPv4 by its ethertype, not by its version")                \
	REASON(drop_header_length, "IPv4 header length below 20 or beyond the frame")          \
	REASON(drop_total_length,  "IPv4 total length below its header or beyond the frame")   \
	REASON(drop_checksum,      "wrong IPv4 header checksum")                               \
	REASON(drop_martian,       "impossible IPv4 source: loopback, multicast, broadcast, 0/8 or an address of this node") \
	REASON(drop_storm,         "for a port in a PFC storm: dropped by the watchdog")       \
	REASON(drop_pfc,           "PFC, counted by priority: no endpoint, ends at the MAC")   \
	REASON(drop_mac_control,   "other MAC control frame: ends at the MAC")
/* clang-format on */
