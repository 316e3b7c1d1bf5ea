// SPDX-License-Identifier: Apache-2.0
/* See switch/marking.h. */
#include "switch/marking.h"

#include "wire/ip.h"

enum { ECN_MASK = 3 };

/* Marsaglia 2003: xorshift. */
static double next_random(struct marking *marking)
{
	marking->random ^= marking->random << 13;
	marking->random ^= marking->random >> 7;
	marking->random ^= marking->random << 17;
	return (double)(marking->random >> 11) / (double)(1ULL << 53);
}

bool marking_applies(struct marking *marking, u64 length)
{
	if (!marking->kmax || length <= marking->kmin)
		return false;
	if (length >= marking->kmax)
		return true;
	double share = (double)(length - marking->kmin) / (double)(marking->kmax - marking->kmin);

	return next_random(marking) < marking->pmax * share;
}

/* The checksum is updated incrementally: RFC 1624. */
bool marking_mark(u8 *ip)
{
	u8 ecn = ip[IPV4_TOS] & ECN_MASK;

	if (ecn == ECN_NOT_CAPABLE || ecn == ECN_CONGESTED)
		return false;
	u32 sum = (u16)~get16(ip + IPV4_CHECKSUM) + (u16)~get16(ip + IPV4_VERSION);

	ip[IPV4_TOS] |= ECN_CONGESTED;
	sum += get16(ip + IPV4_VERSION);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	put16(ip + IPV4_CHECKSUM, (u16)~sum);
	return true;
}
