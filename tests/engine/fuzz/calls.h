/* SPDX-License-Identifier: Apache-2.0 */
/* Calls made from a seed: random plans over two connections, with buffers, dependencies and sizes of all
 * kinds. */
#pragma once

#include "engine/core/core.h"

#define FUZZ_CONNECTIONS 2
#define FUZZ_SLOT_BYTES  2048
#define FUZZ_EAGER_BYTES 48
#define CALL_SEGMENTS    12
#define CALL_BUFFERS     3

struct made_call {
	struct plan plan;
	struct signature signature;
	u32 itemsize;
	bool is_eager;
	u32 buffer_count;
	struct call_buffer buffers[CALL_BUFFERS]; /* memory: only while the call is under way */
	struct plan_segment segments[CALL_SEGMENTS];
	u32 waits[CALL_SEGMENTS];
	u32 first_release[CALL_SEGMENTS + 1], release[CALL_SEGMENTS * 2];
	u32 first_send[FUZZ_CONNECTIONS + 1], send[CALL_SEGMENTS];
	u32 first_receive[FUZZ_CONNECTIONS + 1], receive[CALL_SEGMENTS];
};

/* The same call for the same seed and sequence. */
void call_make(struct made_call *call, u64 seed, u32 sequence);

/* Memory of exactly the bytes that each buffer has. */
void call_allocate(struct made_call *call);
void call_free(struct made_call *call);
