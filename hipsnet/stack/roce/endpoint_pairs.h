/* SPDX-License-Identifier: Apache-2.0 */
/* What an endpoint is to its pairs. Private to roce/endpoint.c and roce/rc.c. */
#pragma once

#include "roce/endpoint.h"
#include "roce/memory.h"

struct regions *endpoint_regions(struct endpoint *endpoint);

/* Finds a place and a number for a new pair; false if there is none. */
bool endpoint_add_pair(struct endpoint *endpoint, struct rc *rc, u32 *qpn);
void endpoint_remove_pair(struct endpoint *endpoint, const struct rc *rc);
