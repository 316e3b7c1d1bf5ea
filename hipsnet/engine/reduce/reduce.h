/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element-wise reductions of two vectors, for every dtype and operation of a collective.
 *
 * The result of an element depends on that element alone: neither length, alignment, processor nor vector
 * width changes a bit of it. Half-precision sums and products are computed in single precision and rounded to
 * nearest even, as numpy does. max and min propagate NaN. Integers wrap around.
 *
 * cffi parses this file: declarations and numeric macros only.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

enum reduce_dtype {
	REDUCE_FLOAT16,
	REDUCE_BFLOAT16,
	REDUCE_FLOAT32,
	REDUCE_FLOAT64,
	REDUCE_INT32,
	REDUCE_INT64,
	REDUCE_DTYPES,
};

enum reduce_operation {
	REDUCE_SUM,
	REDUCE_PROD,
	REDUCE_MAX,
	REDUCE_MIN,
	REDUCE_OPERATIONS,
};

/* Bytes of an element. */
u32 reduce_itemsize(enum reduce_dtype dtype);

/* target[i] = target[i] op other[i]. Both are aligned to their itemsize and do not overlap. */
void reduce(enum reduce_dtype dtype, enum reduce_operation operation, void *target, const void *other,
	    u64 count);

/* target[i] /= divisor; integers are rounded toward zero. The divisor is not 0. */
void reduce_divide(enum reduce_dtype dtype, void *target, u32 divisor, u64 count);
