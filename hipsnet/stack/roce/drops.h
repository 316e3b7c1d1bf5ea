/* SPDX-License-Identifier: Apache-2.0 */
/* Why an endpoint drops a frame. Each dropped frame is counted under exactly one of these names. */
#pragma once

/* clang-format off */
#define DROPS(DROP)                                                                        \
	DROP(truncated,       "shorter than its headers, or than the lengths in them")     \
	DROP(not_ipv4,        "neither IPv4 nor IPv4 behind one VLAN tag")                 \
	DROP(ipv4_header,     "IPv4 options, a fragment, or a wrong header checksum")      \
	DROP(not_roce,        "not UDP to port 4791")                                      \
	DROP(lengths,         "inconsistent lengths of IPv4, UDP, headers and pad")        \
	DROP(bth_header,      "transport version not 0, or not the default P_Key")         \
	DROP(opcode,          "opcode not of the reliable connection service")             \
	DROP(icrc,            "wrong ICRC")                                                \
	DROP(no_pair,         "no connected queue pair has this number")                   \
	DROP(address,         "IPv4 addresses differ from those of the connection")        \
	DROP(state,           "the queue pair is in the error state")
/* clang-format on */

enum drop {
#define DROP(name, meaning) DROP_##name,
	DROPS(DROP)
#undef DROP
		DROP_COUNT,
};
