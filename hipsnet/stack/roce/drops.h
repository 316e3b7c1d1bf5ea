/* SPDX-License-Identifier: Apache-2.0 */
/* Why an endpoint takes no notice of a frame: each is counted under exactly one of these names. Python reads
 * this list too. */
#pragma once

/* clang-format off */
#define DROPS(DROP)                                                                        \
	DROP(truncated,       "ends before its headers or its lengths say")                \
	DROP(not_ipv4,        "is neither IPv4 nor tagged IPv4")                           \
	DROP(ipv4_header,     "IPv4 header with options, a fragment or a wrong checksum")  \
	DROP(not_roce,        "is not UDP to port 4791")                                   \
	DROP(lengths,         "lengths of IPv4, UDP, headers and pad contradict each other") \
	DROP(bth_header,      "transport version other than 0, or not the default P_Key")  \
	DROP(opcode,          "opcode is not one of a reliable connection")                \
	DROP(icrc,            "wrong ICRC")                                                \
	DROP(no_pair,         "no queue pair has that number, or it is not connected")     \
	DROP(address,         "IPv4 addresses are not those of the connection")            \
	DROP(state,           "the pair is in the error state")
/* clang-format on */

enum drop {
#define DROP(name, meaning) DROP_##name,
	DROPS(DROP)
#undef DROP
		DROP_COUNT,
};
