// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* process_vm_readv() */
#include "engine/wire/verbs_ibverbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/wire/verbs.h"

#define BATCH    64
#define RECEIVES 64

struct pair {
	struct ibv_qp *pair;
	u64 slots;
	u32 slot_bytes, local_key;
};

struct verbs_ibverbs {
	struct ibv_cq **queues;
	struct pair *pairs;
};

/* Copies memory of this process; false if a part is not mapped. */
static bool peek(u64 address, void *out, size_t bytes)
{
	struct iovec here = {out, bytes}, there = {(void *)(uintptr_t)address, bytes};

	return address % sizeof(void *) == 0 &&
	       process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

static bool is_queue(u64 address, int channel)
{
	struct ibv_cq queue;
	struct ibv_comp_channel there;

	return peek(address, &queue, sizeof(queue)) &&
	       peek((uintptr_t)queue.channel, &there, sizeof(there)) && there.fd == channel &&
	       there.context == queue.context;
}

static bool is_pair(u64 address, u32 number, u64 queue)
{
	struct ibv_qp pair;
	struct ibv_cq cq;
	struct ibv_pd pd;
	struct ibv_cq *expected = (struct ibv_cq *)(uintptr_t)queue;

	return peek(address, &pair, sizeof(pair)) && pair.qp_num == number && pair.qp_type == IBV_QPT_RC &&
	       pair.send_cq == expected && pair.recv_cq == expected && peek(queue, &cq, sizeof(cq)) &&
	       pair.context == cq.context && peek((uintptr_t)pair.pd, &pd, sizeof(pd)) &&
	       pd.context == pair.context;
}

u64 verbs_ibverbs_find_queue(const u64 *words, u32 count, int channel)
{
	for (u32 i = 0; i < count; i++)
		if (is_queue(words[i], channel))
			return words[i];
	return 0;
}

u64 verbs_ibverbs_find_pair(const u64 *words, u32 count, u32 number, u64 queue)
{
	for (u32 i = 0; i < count; i++)
		if (is_pair(words[i], number, queue))
			return words[i];
	return 0;
}

struct verbs_ibverbs *verbs_ibverbs_open(const u64 *queues, u32 devices, const u64 *pairs, u32 connections)
{
	struct verbs_ibverbs *self = calloc(1, sizeof(*self));

	if (!self)
		return NULL;
	self->queues = calloc(devices + 1, sizeof(*self->queues));
	self->pairs = calloc(connections + 1, sizeof(*self->pairs));
	if (!self->queues || !self->pairs) {
		verbs_ibverbs_close(self);
		return NULL;
	}
	for (u32 i = 0; i < devices; i++)
		self->queues[i] = (struct ibv_cq *)(uintptr_t)queues[i];
	for (u32 i = 0; i < connections; i++)
		self->pairs[i].pair = (struct ibv_qp *)(uintptr_t)pairs[i];
	return self;
}

void verbs_ibverbs_close(struct verbs_ibverbs *self)
{
	free(self->queues);
	free(self->pairs);
	free(self);
}

void verbs_ibverbs_place(struct verbs_ibverbs *self, u32 connection, u64 slots, u32 slot_bytes, u32 local_key)
{
	struct pair *pair = &self->pairs[connection];

	pair->slots = slots;
	pair->slot_bytes = slot_bytes;
	pair->local_key = local_key;
}

static void fill(const struct verbs_request *from, struct ibv_send_wr *request, struct ibv_sge *piece)
{
	static const enum ibv_wr_opcode opcodes[] = {
		[VERBS_SEND] = IBV_WR_SEND,
		[VERBS_WRITE] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[VERBS_PROBE] = IBV_WR_RDMA_WRITE,
	};

	*piece = (struct ibv_sge){from->address, from->bytes, from->local_key};
	memset(request, 0, sizeof(*request));
	request->wr_id = from->number;
	request->sg_list = piece;
	request->num_sge = from->bytes ? 1 : 0;
	request->opcode = opcodes[from->kind];
	request->send_flags =
		(from->is_signalled ? IBV_SEND_SIGNALED : 0) | (from->is_inline ? IBV_SEND_INLINE : 0);
	request->imm_data = htonl(from->immediate);
	request->wr.rdma.remote_addr = from->remote_address;
	request->wr.rdma.rkey = from->remote_key;
}

static int post_send(void *context, u32 connection, const struct verbs_request *from, u32 count)
{
	struct verbs_ibverbs *self = context;
	struct ibv_send_wr requests[BATCH], *failed;
	struct ibv_sge pieces[BATCH];

	if (!count || count > BATCH)
		return EINVAL;
	for (u32 i = 0; i < count; i++) {
		fill(&from[i], &requests[i], &pieces[i]);
		requests[i].next = i + 1 < count ? &requests[i + 1] : NULL;
	}
	return ibv_post_send(self->pairs[connection].pair, requests, &failed);
}

static int post_receives(void *context, u32 connection, const u32 *slots, u32 count)
{
	struct verbs_ibverbs *self = context;
	struct pair *pair = &self->pairs[connection];
	struct ibv_recv_wr requests[RECEIVES] = {0}, *failed;
	struct ibv_sge pieces[RECEIVES];

	if (!count || count > RECEIVES)
		return EINVAL;
	for (u32 i = 0; i < count; i++) {
		pieces[i] = (struct ibv_sge){pair->slots + (u64)slots[i] * pair->slot_bytes, pair->slot_bytes,
					     pair->local_key};
		requests[i].wr_id = slots[i];
		requests[i].sg_list = &pieces[i];
		requests[i].num_sge = 1;
		requests[i].next = i + 1 < count ? &requests[i + 1] : NULL;
	}
	return ibv_post_recv(pair->pair, requests, &failed);
}

static int poll_queue(void *context, u32 device, struct verbs_completion *completions, u32 most, u32 *count)
{
	struct verbs_ibverbs *self = context;
	struct ibv_wc found[BATCH];
	int polled = ibv_poll_cq(self->queues[device], most < BATCH ? most : BATCH, found);

	if (polled < 0)
		return EIO;
	*count = polled;
	for (int i = 0; i < polled; i++) {
		completions[i] = (struct verbs_completion){
			.number = found[i].wr_id,
			.queue_pair = found[i].qp_num,
			.outcome = found[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM ? VERBS_WRITTEN
				   : found[i].opcode == IBV_WC_RECV             ? VERBS_RECEIVED
										: VERBS_SENT,
			.status = found[i].status,
			.vendor_error = found[i].vendor_err,
			.bytes = found[i].byte_len,
			.immediate = ntohl(found[i].imm_data),
		};
	}
	return 0;
}

static int arm(void *context, u32 device)
{
	struct verbs_ibverbs *self = context;

	return ibv_req_notify_cq(self->queues[device], 0);
}

static int take_event(void *context, u32 device)
{
	struct verbs_ibverbs *self = context;
	struct ibv_cq *queue;
	void *unused;

	if (ibv_get_cq_event(self->queues[device]->channel, &queue, &unused))
		return errno;
	ibv_ack_cq_events(queue, 1);
	return 0;
}

void verbs_ibverbs_posting(struct verbs_ibverbs *self, struct verbs_posting *posting)
{
	*posting = (struct verbs_posting){
		.context = self,
		.post_send = post_send,
		.post_receives = post_receives,
		.poll = poll_queue,
		.arm = arm,
		.take_event = take_event,
	};
}
