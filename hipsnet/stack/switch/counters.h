/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a soft switch counts, in a file that other programs map and read while it runs:
 * counters.py takes the names from here. Everything is a 64-bit number that only the switch
 * writes.
 *
 * The file: struct switch_file, with what the watchdog told last, then for each switch its struct
 * switch_counters and as many struct port_counters as that says.
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
	COUNTER(shared_bytes,     "of the shared buffer in use")                         \
	COUNTER(shared_max_bytes, "the most that has been in use")                       \
	COUNTER(headroom_bytes,   "of all headrooms in use")                             \
	COUNTER(headroom_max_bytes, "the most that has been in use")                     \
	COUNTER(memory_free,      "chunks of memory that hold no frame")                 \
	COUNTER(memory_min_free,  "the fewest that there have been")

#define PORT_COUNTERS(COUNTER)                                                          \
	COUNTER(rate_bps,         "rate of the cable, 0: no limit")                      \
	COUNTER(flooded,          "frames from here sent out of every other port")       \
	COUNTER(pfc_frames,       "PFC frames that came in")                             \
	COUNTER(drop_control,     "other frames that no bridge hands on (01:80:c2:00:00:0x)") \
	COUNTER(drop_truncated,   "frames that end inside a header")                     \
	COUNTER(drop_too_long,    "frames longer than the MTU, an Ethernet header and a VLAN tag") \
	COUNTER(drop_same_port,   "frames for the port that they came from")             \
	COUNTER(drop_not_ours,    "frames to a router that are not to its MAC, or not IPv4") \
	COUNTER(drop_header,      "IPv4 with a wrong header or checksum, at a router")   \
	COUNTER(drop_ttl,         "IPv4 whose TTL ran out, at a router")                 \
	COUNTER(drop_no_route,    "IPv4 without a route, or for the router itself")      \
	COUNTER(drop_receive,     "lost before the switch saw them: it was too late")

#define PRIORITY_COUNTERS(COUNTER)                                                      \
	COUNTER(rx_frames,        "frames that came in")                                 \
	COUNTER(rx_bytes,         "bytes that came in, with the Ethernet header")        \
	COUNTER(tx_frames,        "frames that went out")                                \
	COUNTER(tx_bytes,         "bytes that went out")                                 \
	COUNTER(ecn_marks,        "frames that were marked as they came to the queue")              \
	COUNTER(late,             "lossless; found the headroom full, and came while nobody looked") \
	COUNTER(drop_tail,        "lossy; the queue to which they went had its share")   \
	COUNTER(drop_full,        "lossy; the shared buffer was full")                   \
	COUNTER(drop_headroom,    "lossless; headroom and ring were full: pause was not obeyed") \
	COUNTER(drop_memory,      "no chunk of memory was free")                         \
	COUNTER(drop_down,        "waited here for a cable that is down")                \
	COUNTER(drop_storm,       "lossless; would wait here in a storm: the watchdog dropped it") \
	COUNTER(storms,           "storms here that the watchdog has detected")          \
	COUNTER(storming,         "1 while there is one")                                \
	COUNTER(ingress_bytes,    "held now of what came in here")                       \
	COUNTER(ingress_max_bytes, "the most that has been held")                        \
	COUNTER(headroom_bytes,   "held now in the headroom of what came in here")       \
	COUNTER(headroom_max_bytes, "the most that has been held there")                 \
	COUNTER(egress_bytes,     "held now that waits to go out here")                  \
	COUNTER(egress_max_bytes, "the most that has waited")

#define EVENT_FIELDS(COUNTER)                                                           \
	COUNTER(number,           "which one of the fabric's, from 1; written last")     \
	COUNTER(time_ns,          "when, by CLOCK_MONOTONIC")                            \
	COUNTER(began_ns,         "since when the queue had been stuck; when restored: in a storm") \
	COUNTER(kind,             "1: storm, 2: restored")                               \
	COUNTER(action,           "1: drop, 2: forward, 3: alert")                       \
	COUNTER(switch_index,     "of the file's switches")                              \
	COUNTER(port,             "whose other end pauses")                              \
	COUNTER(priority,         "that it pauses")                                      \
	COUNTER(victims,          "a bit for each port whose frames waited")             \
	COUNTER(frames,           "that waited; when restored: that the storm has cost")
/* clang-format on */

#define COUNTER_FIELD(name, meaning) u64 name;

struct switch_event {
	EVENT_FIELDS(COUNTER_FIELD)
};

/* The last of them: number n stands at (n - 1) % SWITCH_EVENTS. */
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

/* Tells a reader of another version that its fields are others: FNV-1a over their names. */
static inline u64 switch_layout(void)
{
	u64 value = 0xcbf29ce484222325ULL;

	for (const char *at = SWITCH_FIELD_NAMES; *at; at++)
		value = (value ^ (u8)*at) * 0x100000001b3ULL;
	return value;
}
