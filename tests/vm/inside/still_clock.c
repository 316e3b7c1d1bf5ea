// SPDX-License-Identifier: GPL-2.0
/*
 * A clock that stands still, for a program that numbers its netlink messages by the second (LD_PRELOAD).
 */
#include <time.h>

time_t time(time_t *into)
{
	if (into)
		*into = 1;
	return 1;
}
