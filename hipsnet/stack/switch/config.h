/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration file of a fabric's switches. A line is a keyword and its values; it applies to the switch
 * above it:
 *
 *	counters PATH			the counters file
 *	frame BYTES			the longest frame
 *	weights W0 .. W7		by priority; all 0: strict
 *	dscp DSCP PRIORITY
 *	marking PRIORITY KMIN KMAX PMAX
 *	class PRIORITY LOSSLESS RESERVED HEADROOM XOFF XON ALPHA HYSTERESIS
 *	watchdog DETECT_NS RESTORE_NS drop|forward|alert
 *	switch NAME NAMESPACE MAP l2|l3 SHARED CHUNKS OWED
 *	port IFNAME IFINDEX MAC RATE BURST_NS
 *	mac MAC PORT
 *	route PREFIX MASK {PORT MAC}...
 *
 * MAP is the id of the XSKMAP of the switch's program. CHUNKS is the size of its memory without the receive
 * rings; OWED of them are kept for reserves and headrooms.
 */
#pragma once

#include "switch/core.h"

#define CONFIG_SWITCHES   4096
#define CONFIG_NAME_BYTES 64

struct port_config {
	char ifname[16];
	u8 mac[MAC_BYTES];
	u64 rate_bps, burst_ns;
};

struct switch_config {
	char name[SWITCH_NAME_BYTES];
	char namespace[CONFIG_NAME_BYTES];
	u32 map;
	u32 chunks;
	struct soft_switch *core; /* everything but its ports is set */
	struct port_config ports[SWITCH_PORTS];
};

struct fabric_config {
	char counters[256];
	u32 longest_frame;
	u32 weights[PRIORITIES];
	u8 priority_of[DSCP_COUNT];
	struct watchdog watchdog;
	struct marking marking;
	u8 marks;
	struct buffer_class classes[PRIORITIES];
	u32 count;
	struct switch_config *switches;
};

/* Reads the file. Exits with status 2 and a message that names the line if it is invalid. */
struct fabric_config *read_config(const char *path);
