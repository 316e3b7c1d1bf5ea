/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PFC storms: a peer that pauses a port forever blocks all senders to that port, and in time those behind
 * them. The watchdog polls every lossless queue; during a storm the switch acts as the watchdog's action
 * says.
 */
#pragma once

#include "switch/core.h"

/* Polls the queues if it is time to; returns the time of the next poll, PFC_NEVER without a watchdog. */
u64 switch_watch(struct soft_switch *self, u64 now);
