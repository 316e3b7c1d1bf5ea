/* SPDX-License-Identifier: Apache-2.0 */
/* The stack's integers, of the same types as the kernel's, and the bytes that a frame is made of. */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

/* One of the buffers in which a frame lies. Its headers lie in the first. */
struct span {
	u8 *data;
	u32 bytes;
};
