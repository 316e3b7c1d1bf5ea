/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storms: a port whose other end pauses for ever holds up all who send to it, and by and by those who send to
 * them. The watchdog looks at every lossless queue, and the switch overrules the pause as the watchdog says.
 */
#pragma once

#include "switch/core.h"

/* Looks at the queues if it is time to; returns when to come again, PFC_NEVER without a watchdog. */
u64 switch_watch(struct soft_switch *self, u64 now);
