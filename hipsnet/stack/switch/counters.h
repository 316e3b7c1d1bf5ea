/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counters of the soft switches, in a file that other programs read while they run. counters.py reads the
 * names from this header. All values are 64-bit numbers that only the switch process writes.
 *
 * The file consists of struct switch_file, with the latest events of the watchdog, and for each switch a
 * struct switch_counters and `ports` times struct port_counters.
 */
#pragma once

#include "cable/pfc.h"

#define SWITCH_FILE_MARK  0x3373777370696800ULL /* "\0hipsws3" */
#define SWITCH_NAME_BYTES 32
#define SWITCH_EVENTS     256

/* clang-format off */
#define SWITCH_COUNTERS(COUNTER)                                                        \
	COUNTER(ports,            "ports of the switch")                                 \
	COUNTER(shared_size,      "size of the shared buffer, bytes")                    \
	COUNTER(shared_bytes,     "bytes of the shared buffer in use")                   \
	COUNTER(shared_max_bytes, "maximum of shared_bytes")                             \
	COUNTER(headroom_bytes,   "bytes of all headrooms in use")                       \
	COUNTER(headroom_max_bytes, "maximum of headroom_bytes")                         \
	COUNTER(memory_free,      "free chunks of memory")                               \
	COUNTER(memory_min_free,  "minimum of memory_free")

#define PORT_COUNTERS(COUNTER)                                                          \
	COUNTER(rate_bps,         "rate of the cable, 0: no limit")                      \
	COUNTER(flooded,          "frames received here and sent to all other ports")    \
	COUNTER(pfc_frames,       "PFC frames received")                                 \
	COUNTER(drop_control,     "other link-local frames, never forwarded (01:80:c2:00:00:0x)") \
	COUNTER(drop_truncated,   "frames that end inside a header")                     \
	COUNTER(drop_too_long,    "frames longer than the MTU, an Ethernet header and a VLAN tag") \
	COUNTER(drop_same_port,   "frames whose egress port is the ingress port")        \
	COUNTER(drop_not_ours,    "at a router: not to its MAC, or not IPv4")            \
	COUNTER(drop_header,      "at a router: wrong IPv4 header or checksum")          \
	COUNTER(drop_ttl,         "at a router: TTL expired")                            \
	COUNTER(drop_no_route,    "at a router: no route, or for the router itself")     \
	COUNTER(drop_receive,     "dropped by the kernel: the receive ring was used up")

#define PRIORITY_COUNTERS(COUNTER)                                                      \
	COUNTER(rx_frames,        "frames received")                                     \
	COUNTER(rx_bytes,         "bytes received, with the Ethernet header")            \
	COUNTER(tx_frames,        "frames sent")                                         \
	COUNTER(tx_bytes,         "bytes sent")                                          \
	COUNTER(ecn_marks,        "frames marked on entry to this queue")                \
	COUNTER(late,             "lossless: accepted beyond the headroom, into the receive ring's chunks") \
	COUNTER(drop_tail,        "lossy: the egress queue was at its limit")            \
	COUNTER(drop_full,        "lossy: the shared buffer was full")                   \
	COUNTER(drop_headroom,    "lossless: headroom and ring were full, the pause was not honoured") \
	COUNTER(drop_memory,      "no free chunk of memory")                             \
	COUNTER(drop_down,        "for a cable that is down")                            \
	COUNTER(drop_storm,       "lossless: dropped by the watchdog in a storm")        \
	COUNTER(storms,           "storms detected by the watchdog")                     \
	COUNTER(storming,         "1 during a storm")                                    \
	COUNTER(ingress_bytes,    "bytes of this priority group in the buffer")          \
	COUNTER(ingress_max_bytes, "maximum of ingress_bytes")                           \
	COUNTER(headroom_bytes,   "bytes of this priority group in the headroom")        \
	COUNTER(headroom_max_bytes, "maximum of headroom_bytes")                         \
	COUNTER(egress_bytes,     "bytes in this egress queue")                          \
	COUNTER(egress_max_bytes, "maximum of egress_bytes")

#define EVENT_FIELDS(COUNTER)                                                           \
	COUNTER(number,           "of the event in the fabric, from 1; written last")    \
	COUNTER(time_ns,          "CLOCK_MONOTONIC")                                     \
	COUNTER(began_ns,         "storm: since when the queue was stuck; restored: start of the storm") \
	COUNTER(kind,             "1: storm, 2: restored")                               \
	COUNTER(action,           "1: drop, 2: forward, 3: alert")                       \
	COUNTER(switch_index,     "index of the switch in this file")                    \
	COUNTER(port,             "the port whose peer pauses")                          \
	COUNTER(priority,         "the paused priority")                                 \
	COUNTER(victims,          "a bit for each ingress port whose frames wait")       \
	COUNTER(frames,           "storm: frames that wait; restored: frames dropped")
/* clang-format on */

#define COUNTER_FIELD(name, meaning) u64 name;

struct switch_event {
	EVENT_FIELDS(COUNTER_FIELD)
};

/* The latest events: number n is at (n - 1) % SWITCH_EVENTS. */
struct switch_events {
	u64 count;
	struct switch_event ring[SWITCH_EVENTS];
};

struct switch_file {
	u64 mark;
	u64 layout; /* switch_layout() */
	u64 switches;
	u64 pid;
	struct switch_events events;
};

struct switch_counters {
	char name[SWITCH_NAME_BYTES];
	SWITCH_COUNTERS(COUNTER_FIELD)
};

struct priority_counters {
	PRIORITY_COUNTERS(COUNTER_FIELD)
};

struct port_counters {
	PORT_COUNTERS(COUNTER_FIELD)
	struct priority_counters priority[PRIORITIES];
	struct pfc_counters pause[PRIORITIES];
};

/* clang-format off */
#define COUNTER_NAME(name, meaning) #name " "
#define SWITCH_FIELD_NAMES                                                             \
	SWITCH_COUNTERS(COUNTER_NAME) PORT_COUNTERS(COUNTER_NAME)                        \
	PRIORITY_COUNTERS(COUNTER_NAME) PFC_COUNTERS(COUNTER_NAME) EVENT_FIELDS(COUNTER_NAME)
/* clang-format on */

/* A fingerprint of the fields (FNV-1a over their names), by which a reader detects another version. */
static inline u64 switch_layout(void)
{
	u64 value = 0xcbf29ce484222325ULL;

	for (const char *at = SWITCH_FIELD_NAMES; *at; at++)
		value = (value ^ (u8)*at) * 0x100000001b3ULL;
	return value;
}
