/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explicit congestion notification: which packets a queue marks, by its length as it is (after RED, Floyd and
 * Jacobson 1993, in the simplification of DCQCN, Zhu et al. 2015): none up to kmin, then a share that grows
 * to pmax at kmax, and all from there.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

struct marking {
	u64 kmin, kmax; /* bytes; kmax 0: none are marked */
	double pmax;
	u64 random; /* state of the dice, not 0 */
};

/* Throws the dice for a packet that comes to a queue of this length. */
bool marking_wants(struct marking *marking, u64 length);

/* Marks an IPv4 packet; false if its ends cannot deal with it, or it is marked already. RFC 3168. */
bool marking_mark(u8 *ip);
