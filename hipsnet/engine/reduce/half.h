/* SPDX-License-Identifier: Apache-2.0 */
/* The two 16-bit floating-point formats, to and from single precision, rounded to nearest even. */
#pragma once

#include <string.h>

#include "wire/types.h"

static inline u32 float_bits(float value)
{
	u32 bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline float float_of_bits(u32 bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline float float_of_bfloat16(u16 half)
{
	return float_of_bits((u32)half << 16);
}

static inline u16 bfloat16_of_float(float value)
{
	u32 bits = float_bits(value);
	u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
	u32 quiet = bits >> 16 | 0x40; /* rounding could turn a NaN into infinity */

	return (bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded;
}

/* binary16 without the processor's help. Subnormals are exact: 2^-24 is a power of two. */
static inline float float_of_float16(u16 half)
{
	u32 sign = (u32)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;

	if (exponent == 0x1f)
		return float_of_bits(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0));
	if (exponent == 0)
		return float_of_bits(sign | float_bits((float)fraction * 0x1p-24f));
	return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

static inline u16 float16_of_float(float value)
{
	u32 bits = float_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

	if (magnitude > 0x7f800000)
		return sign | 0x7e00 | (magnitude >> 13 & 0x3ff);
	if (magnitude >= 0x477ff000) /* half a step above the largest finite value, and beyond */
		return sign | 0x7c00;
	if (magnitude <
	    0x38800000) /* subnormal: adding 0.5 shifts the fraction to where its last bit is 2^-24 */
		return sign | (float_bits(float_of_bits(magnitude) + 0.5f) - 0x3f000000);
	return sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
}
