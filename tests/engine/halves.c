// SPDX-License-Identifier: Apache-2.0
/* Conversions of binary16 in software against the processor's: all halves, and all floats next to a rounding.
 */
#include <immintrin.h>
#include <stdbool.h>
#include <stdio.h>

#include "engine/reduce/half.h"

static bool is_nan(u16 half)
{
	return (half & 0x7fff) > 0x7c00;
}

static bool rounds_alike(u32 bits)
{
	float value = float_of_bits(bits);
	u16 ours = float16_of_float(value);
	u16 theirs = _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);

	return ours == theirs || (is_nan(ours) && is_nan(theirs));
}

static bool reads_alike(u16 half)
{
	u32 ours = float_bits(float_of_float16(half)), theirs = float_bits(_cvtsh_ss(half));

	return ours == theirs;
}

int main(void)
{
	/* The 13 bits below a half's fraction: exact, a step above, around the middle, a step below the next.
	 */
	static const u32 below[] = {0, 1, 0xfff, 0x1000, 0x1001, 0x1fff};

	for (u32 half = 0; half < 1 << 16; half++) {
		if (!reads_alike(half)) {
			printf("float of %04x\n", half);
			return 1;
		}
	}
	for (u32 top = 0; top < 1 << 19; top++) {
		for (u32 i = 0; i < sizeof(below) / sizeof(*below); i++) {
			if (!rounds_alike(top << 13 | below[i])) {
				printf("half of %08x\n", top << 13 | below[i]);
				return 1;
			}
		}
	}
	puts("same");
	return 0;
}
