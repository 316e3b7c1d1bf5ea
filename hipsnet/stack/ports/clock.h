/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of the loop. */
#pragma once

#include <time.h>

#include "wire/types.h"

#define NS_PER_S 1000000000ULL

static inline u64 clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * NS_PER_S + (u64)now.tv_nsec;
}
