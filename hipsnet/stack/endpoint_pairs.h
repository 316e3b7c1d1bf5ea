/* What an endpoint is to its pairs. Private to endpoint.c and rc.c. */
#pragma once

#include "endpoint.h"
#include "memory.h"

struct regions *endpoint_regions(struct endpoint *endpoint);

/* Finds a place and a number for a new pair; false if there is none. */
bool endpoint_add_pair(struct endpoint *endpoint, struct rc *rc, u32 *qpn);
void endpoint_remove_pair(struct endpoint *endpoint, const struct rc *rc);
