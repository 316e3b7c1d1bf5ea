/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every header that the stack reads or writes.
 *
 * `*_parse` reads a header at the front of a *view* into a *value* in host order and advances the view.
 * `*_emit` writes a value to the front of a *room* and advances the room. Both return false and change
 * nothing if there are too few bytes, or if a field has a value that the stack does not accept. IEEE 802.3,
 * 802.1Q and 802.1Qbb; RFC 791 and 768; IBTA Architecture Specification volume 1, chapter 9 and annex A17
 * (RoCEv2).
 */
#pragma once

#include "wire/bytes.h"
#include "wire/ip.h"
#include "wire/pfc.h"
#include "wire/roce.h"
