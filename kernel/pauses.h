/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * What a port, its endpoint (hipsnet/stack/ports/port.c) and the watchdog over what is forwarded
 * (storm.h) know of pauses: the endpoint maps it into its memory, the programs look it up, and anybody may
 * read the counters. Times are of CLOCK_MONOTONIC.
 */
#pragma once

#define PAUSE_PRIORITIES 8
#define PAUSE_COUNTERS   6 /* of hipsnet/stack's pfc.h */

#define STORM_DROP    1 /* what is to leave by a port in a storm is lost */
#define STORM_FORWARD 2 /* it leaves: the pause is not honoured */
#define STORM_ALERT   3 /* the storm is told */

/* In storm_ns: whoever found the storm is still writing it down. One who dies over it is not waited for. */
#define STORM_UNTOLD  1ULL
#define STORM_TOLD_NS 1000000000LL

#define STORM_VICTIMS 64 /* ports of a server: the topology file allows 30 */

struct pauses {
	u64 counters[PAUSE_PRIORITIES * PAUSE_COUNTERS]; /* the endpoint's: six for each priority */
	u64 until_ns[PAUSE_PRIORITIES];                  /* no frame is forwarded out of here before */
	u64 buffered[PAUSE_PRIORITIES]; /* frames on their way through the endpoint's buffer, out of here */
	u64 quantum_ps;                 /* how long a quantum lasts here; 0: no endpoint looks after pauses */
	u64 since_ns[PAUSE_PRIORITIES]; /* since when the pause has lasted without a gap */

	/* The watchdog, as provisioned; without an action there is none. */
	u64 storm_action;
	u64 storm_quantum_ps; /* how long a quantum lasts where no endpoint says so */
	u64 detect_ns;
	u64 restore_ns;

	/* The last storm of each priority. */
	u64 storm_ns[PAUSE_PRIORITIES]; /* when it was detected, even; 0: it is over, or there was none */
	u64 storm_seen_ns[PAUSE_PRIORITIES]; /* the same, and it stays */
	u64 storm_since_ns[PAUSE_PRIORITIES];
	u64 storm_over_ns[PAUSE_PRIORITIES];
	u64 storm_victims[PAUSE_PRIORITIES]; /* a bit for each port by which frames came for it */
	u64 storm_waiting[PAUSE_PRIORITIES]; /* frames that waited when it was detected */
	u64 storm_lost[PAUSE_PRIORITIES];    /* frames that it has cost */
	u64 storms[PAUSE_PRIORITIES];        /* how many there were */
};
