// SPDX-License-Identifier: Apache-2.0
/*
 * One loop for each dtype and operation, which the compiler vectorises for each level of the processor.
 *
 * max(a, b) as `a >= b || a != a ? a : b` is a compare and a blend; the compiler may only use them if it need
 * not preserve floating-point exceptions, hence no-trapping-math. It changes no result.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3", "unroll-loops", "no-trapping-math")
#endif

#include "engine/reduce/reduce.h"

#include "engine/reduce/half.h"

/* Sanitizers run before the loader resolves clones; the plain loop has the same results. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
	!defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define SAME(x)        (x)
#define ADD(a, b)      ((a) + (b))
#define MUL(a, b)      ((a) * (b))
#define MAX(a, b)      ((a) >= (b) || (a) != (a) ? (a) : (b))
#define MIN(a, b)      ((a) <= (b) || (a) != (a) ? (a) : (b))
#define QUOTIENT(a, b) ((a) / (b))

/* A loop over elements of `type`, computed as `wide`, which READ gives and WRITE takes. */
#define LOOP(name, type, wide, READ, WRITE, OP)                                                              \
	CLONES static void name(void *restrict target, const void *restrict other, u64 count)                \
	{                                                                                                    \
		type *restrict to = target;                                                                  \
		const type *restrict from = other;                                                           \
                                                                                                             \
		for (u64 i = 0; i < count; i++) {                                                            \
			wide a = READ(to[i]), b = READ(from[i]);                                             \
                                                                                                             \
			to[i] = WRITE(OP(a, b));                                                             \
		}                                                                                            \
	}

#define DIVIDE(name, type, wide, READ, WRITE)                                                                \
	CLONES static void name(void *restrict target, u32 divisor, u64 count)                               \
	{                                                                                                    \
		type *restrict to = target;                                                                  \
		wide by = (wide)divisor;                                                                     \
                                                                                                             \
		for (u64 i = 0; i < count; i++)                                                              \
			to[i] = WRITE(QUOTIENT(READ(to[i]), by));                                            \
	}

#define FLOATING(name, type, wide, READ, WRITE)                                                              \
	LOOP(name##_sum, type, wide, READ, WRITE, ADD)                                                       \
	LOOP(name##_prod, type, wide, READ, WRITE, MUL)                                                      \
	LOOP(name##_max, type, wide, READ, WRITE, MAX)                                                       \
	LOOP(name##_min, type, wide, READ, WRITE, MIN)                                                       \
	DIVIDE(name##_divide, type, wide, READ, WRITE)

/* Sums and products of integers wrap around, which C defines for unsigned ones alone. */
#define INTEGER(name, type, wrapping)                                                                        \
	LOOP(name##_sum, wrapping, wrapping, SAME, SAME, ADD)                                                \
	LOOP(name##_prod, wrapping, wrapping, SAME, SAME, MUL)                                               \
	LOOP(name##_max, type, type, SAME, SAME, MAX)                                                        \
	LOOP(name##_min, type, type, SAME, SAME, MIN)                                                        \
	DIVIDE(name##_divide, type, type, SAME, SAME)

FLOATING(bfloat16, u16, float, float_of_bfloat16, bfloat16_of_float)
FLOATING(float32, float, float, SAME, SAME)
FLOATING(float64, double, double, SAME, SAME)
FLOATING(float16_plain, u16, float, float_of_float16, float16_of_float)
INTEGER(int32, int, u32)
INTEGER(int64, long long, u64)

typedef void loop_function(void *restrict target, const void *restrict other, u64 count);
typedef void divide_function(void *restrict target, u32 divisor, u64 count);

#if defined(__x86_64__)
/* binary16: the processor converts eight at a time, which the compiler does not find by itself.
 * Without AVX2, GCC 12 takes a blend apart into branches. */
#define F16C __attribute__((target("avx2,f16c")))
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define STEP 8

F16C static __always_inline __m256 read_eight(const u16 *from)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

F16C static __always_inline void write_eight(u16 *to, __m256 values)
{
	_mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

/* VMAXPS and VMINPS give their second operand where either is NaN: right if that one is it. */
F16C static __always_inline __m256 or_nan(__m256 found, __m256 first)
{
	return _mm256_blendv_ps(found, first, _mm256_cmp_ps(first, first, _CMP_UNORD_Q));
}

#define ADD_EIGHT(a, b) _mm256_add_ps(a, b)
#define MUL_EIGHT(a, b) _mm256_mul_ps(a, b)
#define MAX_EIGHT(a, b) or_nan(_mm256_max_ps(b, a), b)
#define MIN_EIGHT(a, b) or_nan(_mm256_min_ps(b, a), b)

#define F16C_LOOP(name, OP)                                                                                  \
	F16C static void float16_##name(void *restrict target, const void *restrict other, u64 count)        \
	{                                                                                                    \
		u16 *restrict to = target;                                                                   \
		const u16 *restrict from = other;                                                            \
		u64 whole = count - count % STEP;                                                            \
                                                                                                             \
		for (u64 i = 0; i < whole; i += STEP)                                                        \
			write_eight(to + i, OP(read_eight(to + i), read_eight(from + i)));                   \
		float16_plain_##name(to + whole, from + whole, count - whole);                               \
	}

F16C_LOOP(sum, ADD_EIGHT)
F16C_LOOP(prod, MUL_EIGHT)
F16C_LOOP(max, MAX_EIGHT)
F16C_LOOP(min, MIN_EIGHT)

F16C static void float16_divide(void *restrict target, u32 divisor, u64 count)
{
	u16 *restrict to = target;
	u64 whole = count - count % STEP;
	__m256 by = _mm256_set1_ps((float)divisor);

	for (u64 i = 0; i < whole; i += STEP)
		write_eight(to + i, _mm256_div_ps(read_eight(to + i), by));
	float16_plain_divide(to + whole, divisor, count - whole);
}
#endif

#define LOOPS(name)                                                                                          \
	{                                                                                                    \
		name##_sum, name##_prod, name##_max, name##_min                                              \
	}

static loop_function *loops[REDUCE_DTYPES][REDUCE_OPERATIONS] = {
	[REDUCE_FLOAT16] = LOOPS(float16_plain), [REDUCE_BFLOAT16] = LOOPS(bfloat16),
	[REDUCE_FLOAT32] = LOOPS(float32),       [REDUCE_FLOAT64] = LOOPS(float64),
	[REDUCE_INT32] = LOOPS(int32),           [REDUCE_INT64] = LOOPS(int64),
};

static divide_function *divisions[REDUCE_DTYPES] = {
	[REDUCE_FLOAT16] = float16_plain_divide, [REDUCE_BFLOAT16] = bfloat16_divide,
	[REDUCE_FLOAT32] = float32_divide,       [REDUCE_FLOAT64] = float64_divide,
	[REDUCE_INT32] = int32_divide,           [REDUCE_INT64] = int64_divide,
};

#if defined(__x86_64__)
/* clang 14 has no __builtin_cpu_supports("f16c"). */
static bool has_f16c(void)
{
	u32 eax, ebx, ecx, edx;

	return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && ecx & bit_F16C;
}

__attribute__((constructor)) static void use_f16c(void)
{
	loop_function *with_f16c[] = LOOPS(float16);

	if (!__builtin_cpu_supports("avx2") || !has_f16c())
		return;
	memcpy(loops[REDUCE_FLOAT16], with_f16c, sizeof(with_f16c));
	divisions[REDUCE_FLOAT16] = float16_divide;
}
#endif

u32 reduce_itemsize(enum reduce_dtype dtype)
{
	static const u32 sizes[REDUCE_DTYPES] = {
		[REDUCE_FLOAT16] = 2, [REDUCE_BFLOAT16] = 2, [REDUCE_FLOAT32] = 4,
		[REDUCE_FLOAT64] = 8, [REDUCE_INT32] = 4,    [REDUCE_INT64] = 8,
	};

	return sizes[dtype];
}

void reduce(enum reduce_dtype dtype, enum reduce_operation operation, void *target, const void *other,
	    u64 count)
{
	loops[dtype][operation](target, other, count);
}

void reduce_divide(enum reduce_dtype dtype, void *target, u32 divisor, u64 count)
{
	divisions[dtype](target, divisor, count);
}
