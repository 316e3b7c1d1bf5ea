/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ECN marking by the current length of a queue, as in DCQCN (Zhu et al. 2015; simplified from RED, Floyd and
 * Jacobson 1993): no packet up to kmin, a probability that grows to pmax at kmax, every packet from there on.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

struct marking {
	u64 kmin, kmax; /* bytes; kmax 0: no marking */
	double pmax;
	u64 random; /* state of the generator, not 0 */
};

/* Whether to mark a packet that arrives at a queue of this length: a random decision. */
bool marking_applies(struct marking *marking, u64 length);

/* Marks an IPv4 packet; false if it is not ECN capable, or marked already. RFC 3168. */
bool marking_mark(u8 *ip);
