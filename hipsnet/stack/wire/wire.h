/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every header that the stack reads or writes, in one place.
 *
 * A *view* is what is left of a frame; `*_parse` takes one header off its front into a *value* in host order,
 * and `*_emit` puts a value at the front of a *room*. Both are false, and have touched nothing, if the bytes
 * do not suffice or do not say what the header must say. IEEE 802.3, 802.1Q and 802.1Qbb; RFC 791 and 768;
 * IBTA Architecture Specification volume 1, chapter 9 and annex A17 (RoCEv2).
 */
#pragma once

#include "wire/bytes.h"
#include "wire/ip.h"
#include "wire/pfc.h"
#include "wire/roce.h"
