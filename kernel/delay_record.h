/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* A frame on a delayed cable, as the programs hand it to the delay line
 * (hipsnet/stack/programs/delay_line.c). */
#pragma once

/* Marks a frame whose delay is over: a VLAN that 802.1Q reserves (table 9-2). */
#define DELAY_VID 4095

/* An MTU of 9000 with the Ethernet header and two VLAN tags, in whole words. */
#define MAX_HELD_BYTES 9024

struct held {
	u64 due_ns; /* CLOCK_MONOTONIC */
	u32 bytes;
	u8 frame[];
};
