/*
 * What a port and its endpoint (hipsnet/stack/stack_port.c) know of pauses: the endpoint maps it into its
 * memory, the programs look it up, and anybody may read the counters.
 */
#pragma once

#define PAUSE_PRIORITIES 8
#define PAUSE_COUNTERS   6 /* of hipsnet/stack/pfc.h */

struct pauses {
	u64 counters[PAUSE_PRIORITIES * PAUSE_COUNTERS]; /* the endpoint's: six for each priority */
	u64 until_ns[PAUSE_PRIORITIES]; /* CLOCK_MONOTONIC: no frame is forwarded out of here before */
	u64 buffered[PAUSE_PRIORITIES]; /* frames on their way through the endpoint's buffer, out of here */
	u64 quantum_ps;                 /* how long a quantum lasts here; 0: no endpoint looks after pauses */
};
