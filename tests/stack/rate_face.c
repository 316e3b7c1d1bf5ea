// SPDX-License-Identifier: Apache-2.0
/* What congestion control has made of a pair's rate. */
#include "roce/pair.h"

u64 rate_of(const struct rc *rc);

u64 rate_of(const struct rc *rc)
{
	return rc->dcqcn.current_bps;
}
