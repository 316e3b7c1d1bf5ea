/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The PFC state of a port: shared by the port's program, its endpoint (hipsnet/stack/ports/port.c, which maps
 * it) and the watchdog over forwarded frames (storm.h). Times are of CLOCK_MONOTONIC.
 */
#pragma once

#define PAUSE_PRIORITIES 8
#define PAUSE_COUNTERS   6 /* per priority; hipsnet/stack/cable/pfc.h names them */
#define DSCP_COUNT       64

/*
 * How long after its last poll an endpoint still counts as polling. A process that computes does not empty
 * its buffer: frames held for it would block the neighbours until it polls again. Longer than a busy machine
 * keeps a process from a CPU, shorter than the timeouts of the transports above.
 */
#define POLL_RECENT_NS 100000000ULL

#define STORM_DROP    1 /* frames for a port in a storm are dropped */
#define STORM_FORWARD 2 /* they leave: the pause is not honoured */
#define STORM_ALERT   3 /* the storm is recorded only */

/*
 * Set in storm_ns while the storm that was just detected is being recorded. A writer that dies meanwhile is
 * waited for no longer than STORM_RECORDING_NS.
 */
#define STORM_RECORDING    1ULL
#define STORM_RECORDING_NS 1000000000LL

#define STORM_VICTIMS 64 /* bits of storm_victims; a topology file allows 30 ports per server */

struct pauses {
	u64 counters[PAUSE_PRIORITIES * PAUSE_COUNTERS]; /* written by the endpoint */
	u64 until_ns[PAUSE_PRIORITIES];                  /* the end of the pause in force */
	u64 buffered[PAUSE_PRIORITIES]; /* frames in the endpoint's buffer that leave by this port */
	u64 quantum_ps;                 /* length of a quantum at this port; 0: no endpoint holds frames */
	u64 polled_ns; /* last poll of the endpoint; in the future: it sleeps until then, or until a frame */
	u64 since_ns[PAUSE_PRIORITIES]; /* start of the pause in force, without gaps */

	/* The watchdog, as provisioned; off if storm_action is 0. */
	u64 storm_action;
	u64 storm_quantum_ps; /* length of a quantum while there is no endpoint */
	u64 detect_ns;
	u64 restore_ns;

	/* The last storm of each priority. */
	u64 storm_ns[PAUSE_PRIORITIES];      /* when it was detected (even); 0: over, or none yet */
	u64 storm_seen_ns[PAUSE_PRIORITIES]; /* the same time, kept when the storm is over */
	u64 storm_since_ns[PAUSE_PRIORITIES];
	u64 storm_over_ns[PAUSE_PRIORITIES];
	u64 storm_victims[PAUSE_PRIORITIES]; /* a bit for each port whose frames could not leave */
	u64 storm_waiting[PAUSE_PRIORITIES]; /* frames that waited when it was detected */
	u64 storm_lost[PAUSE_PRIORITIES];    /* frames dropped because of it */
	u64 storms[PAUSE_PRIORITIES];        /* storms so far */

	u8 priority_of[DSCP_COUNT]; /* of frames that leave by this port, by DSCP, as provisioned */
};
