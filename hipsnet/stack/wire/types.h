/* SPDX-License-Identifier: Apache-2.0 */
/* Integers with the kernel's names and types, and the buffers of a frame. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

/* One of a frame's buffers. The first holds all headers. */
struct span {
	u8 *data;
	u32 bytes;
};
