// SPDX-License-Identifier: Apache-2.0
/* Every loop over every length up to some vectors, in allocations that end with the last element. */
#include <stdlib.h>

#include "engine/reduce/reduce.h"

#define LONGEST 70

int main(void)
{
	for (u32 dtype = 0; dtype < REDUCE_DTYPES; dtype++) {
		for (u64 count = 0; count <= LONGEST; count++) {
			u64 bytes = count * reduce_itemsize(dtype);
			u8 *target = malloc(bytes), *other = malloc(bytes);

			for (u64 i = 0; i < bytes; i++)
				target[i] = other[i] = i * 37 + count;
			for (u32 operation = 0; operation < REDUCE_OPERATIONS; operation++)
				reduce(dtype, operation, target, other, count);
			reduce_divide(dtype, target, 9, count);
			free(target);
			free(other);
		}
	}
	return 0;
}
