/* SPDX-License-Identifier: Apache-2.0 */
/* The endpoint's functions for its queue pairs. Private to roce/endpoint.c and roce/rc.c. */
#pragma once

#include "roce/endpoint.h"
#include "roce/memory.h"

struct regions *endpoint_regions(struct endpoint *endpoint);

/* Assigns an entry and a QPN to a new pair; false if the table is full. */
bool endpoint_add_pair(struct endpoint *endpoint, struct rc *rc, u32 *qpn);
void endpoint_remove_pair(struct endpoint *endpoint, const struct rc *rc);
