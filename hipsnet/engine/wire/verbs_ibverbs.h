/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posting and polling by libibverbs, on queue pairs that pyverbs has created.
 *
 * pyverbs does not export its pointers. They are found among the words of its objects: a word that points to
 * a structure with the queue pair's number, type and completion queue is the queue pair; its offset in the
 * object, which changes between versions, does not matter. Words are followed only by reads that cannot
 * fault.
 *
 * A library of its own: the engine does not require libibverbs. cffi parses this file.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

struct verbs_ibverbs;
struct verbs_posting;

/* Among `count` words, the completion queue that reports to this channel; 0 if it is not there.
 */
u64 verbs_ibverbs_find_queue(const u64 *words, u32 count, int channel);

/* Among `count` words, the RC queue pair of this number on this completion queue; 0 if it is not there. */
u64 verbs_ibverbs_find_pair(const u64 *words, u32 count, u32 number, u64 queue);

/* By device, and by connection. NULL if memory is short. */
struct verbs_ibverbs *verbs_ibverbs_open(const u64 *queues, u32 devices, const u64 *pairs, u32 connections);
void verbs_ibverbs_close(struct verbs_ibverbs *self);

/* Where the receive slots of a connection are. */
void verbs_ibverbs_place(struct verbs_ibverbs *self, u32 connection, u64 slots, u32 slot_bytes,
			 u32 local_key);

void verbs_ibverbs_posting(struct verbs_ibverbs *self, struct verbs_posting *posting);
