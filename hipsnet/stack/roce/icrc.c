// SPDX-License-Identifier: Apache-2.0
/*
 * CRC-32 of IEEE 802.3, reflected, optionally while copying: 128 or 64 bytes at a time by carry-less
 * multiplication; 8 at a time by tables on processors without it, and for the remainder.
 *
 * The multiplication follows V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction", Intel 2009. The processor's CRC instruction has another polynomial (CRC-32C).
 */
#include "roce/icrc.h"

#include <stdbool.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define POLYNOMIAL 0xedb88320U

static u32 tables[8][256];
static bool multiplies;
#if defined(__x86_64__)
static bool multiplies_wide;
#endif

__attribute__((constructor)) static void make_tables(void)
{
	for (u32 byte = 0; byte < 256; byte++) {
		u32 sum = byte;

		for (int bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (sum & 1 ? POLYNOMIAL : 0);
		tables[0][byte] = sum;
	}
	for (int table = 1; table < 8; table++) {
		for (u32 byte = 0; byte < 256; byte++) {
			u32 before = tables[table - 1][byte];

			tables[table][byte] = before >> 8 ^ tables[0][before & 0xff];
		}
	}
#if defined(__x86_64__)
	multiplies = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
	multiplies_wide =
		multiplies && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2");
#endif
}

/* All sums below are the complement of the CRC. */
static u32 by_table(u32 sum, const u8 *data, u32 bytes)
{
	for (; bytes >= 8; data += 8, bytes -= 8) {
		sum ^= icrc_parse(data);
		sum = tables[7][sum & 0xff] ^ tables[6][sum >> 8 & 0xff] ^ tables[5][sum >> 16 & 0xff] ^
		      tables[4][sum >> 24] ^ tables[3][data[4]] ^ tables[2][data[5]] ^ tables[1][data[6]] ^
		      tables[0][data[7]];
	}
	for (; bytes; data++, bytes--)
		sum = sum >> 8 ^ tables[0][(sum ^ *data) & 0xff];
	return sum;
}

#if defined(__x86_64__)
#define TARGET      __attribute__((target("pclmul,sse4.1")))
#define WIDE_TARGET __attribute__((target("vpclmulqdq,pclmul,avx2")))
#define WIDE_MIN    256 /* bytes from which on two lanes in a register pay */

/* x^n modulo the polynomial, reflected, for the n bits by which each step shifts. */
#define FOLD_1024_LOW  0x1e88ef372
#define FOLD_1024_HIGH 0x14a7fe880
#define FOLD_512_LOW   0x154442bd4
#define FOLD_512_HIGH  0x1c6e41596
#define FOLD_128_LOW   0x1751997d0
#define FOLD_128_HIGH  0x0ccaa009e
#define FOLD_64        0x163cd6124
#define WHOLE          0x1db710641 /* the polynomial itself */
#define BARRETT        0x1f7011641 /* x^64 divided by it */

TARGET static inline __m128i take(const u8 *data, u8 *to, u32 at)
{
	__m128i value = _mm_loadu_si128((const __m128i *)(data + at));

	if (to)
		_mm_storeu_si128((__m128i *)(to + at), value);
	return value;
}

TARGET static inline __m128i fold(__m128i sum, __m128i by, __m128i next)
{
	__m128i low = _mm_clmulepi64_si128(sum, by, 0x00), high = _mm_clmulepi64_si128(sum, by, 0x11);

	return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* From 128 bits to 32. */
TARGET static inline u32 reduce(__m128i sum, __m128i by)
{
	const __m128i low = _mm_setr_epi32(-1, 0, -1, 0), fold_64 = _mm_set_epi64x(0, FOLD_64);
	const __m128i barrett = _mm_set_epi64x(BARRETT, WHOLE);

	sum = _mm_xor_si128(_mm_clmulepi64_si128(sum, by, 0x10), _mm_srli_si128(sum, 8));
	__m128i upper = _mm_srli_si128(sum, 4);

	sum = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(sum, low), fold_64, 0x00), upper);
	__m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(sum, low), barrett, 0x10);
	__m128i product = _mm_clmulepi64_si128(_mm_and_si128(quotient, low), barrett, 0x00);

	return (u32)_mm_extract_epi32(_mm_xor_si128(sum, product), 1);
}

/* The sum over all whole 64-byte blocks of `bytes` >= 64; `*done` is their length. */
TARGET static inline __m128i begin(u32 start, u8 *to, const u8 *data, u32 bytes, u32 *done)
{
	const __m128i by_512 = _mm_set_epi64x(FOLD_512_HIGH, FOLD_512_LOW);
	const __m128i by_128 = _mm_set_epi64x(FOLD_128_HIGH, FOLD_128_LOW);
	__m128i sum[4];
	u32 at = 64;

	for (u32 i = 0; i < 4; i++)
		sum[i] = take(data, to, 16 * i);
	sum[0] = _mm_xor_si128(sum[0], _mm_cvtsi32_si128((int)start));
	for (; at + 64 <= bytes; at += 64)
		for (u32 i = 0; i < 4; i++)
			sum[i] = fold(sum[i], by_512, take(data, to, at + 16 * i));
	for (u32 i = 1; i < 4; i++)
		sum[0] = fold(sum[0], by_128, sum[i]);
	*done = at;
	return sum[0];
}

WIDE_TARGET static inline __m256i take_wide(const u8 *data, u8 *to, u32 at)
{
	__m256i value = _mm256_loadu_si256((const __m256i *)(data + at));

	if (to)
		_mm256_storeu_si256((__m256i *)(to + at), value);
	return value;
}

/* The same for `bytes` >= WIDE_MIN, with two lanes in each register. */
WIDE_TARGET static __m128i begin_wide(u32 start, u8 *to, const u8 *data, u32 bytes, u32 *done)
{
	const __m256i by_1024 =
		_mm256_set_epi64x(FOLD_1024_HIGH, FOLD_1024_LOW, FOLD_1024_HIGH, FOLD_1024_LOW);
	const __m128i by_128 = _mm_set_epi64x(FOLD_128_HIGH, FOLD_128_LOW);
	__m256i sums[4];
	u32 at = 128;

	for (u32 i = 0; i < 4; i++)
		sums[i] = take_wide(data, to, 32 * i);
	sums[0] = _mm256_xor_si256(sums[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)start)));
	for (; at + 128 <= bytes; at += 128) {
		for (u32 i = 0; i < 4; i++) {
			__m256i low = _mm256_clmulepi64_epi128(sums[i], by_1024, 0x00);
			__m256i high = _mm256_clmulepi64_epi128(sums[i], by_1024, 0x11);

			sums[i] = _mm256_xor_si256(_mm256_xor_si256(low, high),
						   take_wide(data, to, at + 32 * i));
		}
	}
	__m128i sum = _mm256_castsi256_si128(sums[0]);

	for (u32 lane = 1; lane < 8; lane++) {
		__m256i pair = sums[lane / 2];
		__m128i next = lane & 1 ? _mm256_extracti128_si256(pair, 1) : _mm256_castsi256_si128(pair);

		sum = fold(sum, by_128, next);
	}
	*done = at;
	return sum;
}

/* The sum over all whole 16-byte blocks of `bytes` >= 64. */
TARGET static inline u32 by_multiplication(u32 start, u8 *to, const u8 *data, u32 bytes)
{
	const __m128i by_128 = _mm_set_epi64x(FOLD_128_HIGH, FOLD_128_LOW);
	bool wide = multiplies_wide && bytes >= WIDE_MIN;
	u32 at;
	__m128i sum = wide ? begin_wide(start, to, data, bytes, &at) : begin(start, to, data, bytes, &at);

	for (; at + 16 <= bytes; at += 16)
		sum = fold(sum, by_128, take(data, to, at));
	return reduce(sum, by_128);
}

TARGET static u32 add_by_multiplication(u32 start, const u8 *data, u32 bytes)
{
	return by_multiplication(start, NULL, data, bytes);
}

TARGET static u32 copy_by_multiplication(u32 start, u8 *to, const u8 *data, u32 bytes)
{
	return by_multiplication(start, to, data, bytes);
}
#else
static u32 add_by_multiplication(u32 start, const u8 *data, u32 bytes)
{
	return by_table(start, data, bytes & ~15U);
}

static u32 copy_by_multiplication(u32 start, u8 *to, const u8 *data, u32 bytes)
{
	memcpy(to, data, bytes & ~15U);
	return by_table(start, data, bytes & ~15U);
}
#endif

u32 icrc_add_by_table(u32 icrc, const void *data, u32 bytes)
{
	return ~by_table(~icrc, data, bytes);
}

u32 icrc_add(u32 icrc, const void *data, u32 bytes)
{
	const u8 *from = data;
	u32 sum = ~icrc, whole = multiplies && bytes >= 64 ? bytes & ~15U : 0;

	if (whole)
		sum = add_by_multiplication(sum, from, whole);
	return ~by_table(sum, from + whole, bytes - whole);
}

u32 icrc_copy(u32 icrc, void *to, const void *data, u32 bytes)
{
	const u8 *from = data;
	u32 sum = ~icrc, whole = multiplies && bytes >= 64 ? bytes & ~15U : 0;

	if (whole)
		sum = copy_by_multiplication(sum, to, from, whole);
	if (bytes > whole)
		memcpy((u8 *)to + whole, from + whole, bytes - whole);
	return ~by_table(sum, from + whole, bytes - whole);
}
