/* One port of a stack; see stack.h. */
#pragma once

#include "pacer.h"
#include "pfc.h"
#include "stack.h"

/* A pair that sends by the port. */
struct stack_pair {
	struct rc *rc;
	u32 tag;
	u8 priority;
};

struct stack_port {
	struct xsk *xsk;
	struct stack_port_config config;
	struct pacer pacer;
	struct pfc_port pfc;
	struct pfc_counters own[PRIORITIES]; /* where the pauses are counted if nobody else gave room */
	struct stack_pair *pairs;
	u32 count, room; /* of pairs */
	u32 turn;        /* whose it is */
	u64 wake_ns;     /* when there is something to send next */
	int unsent;      /* descriptors that the kernel has not taken, or -errno */
	bool is_frozen;
	struct stack_port_counters counters;
};

/* Hands a batch of what has come in to the endpoint; false if there was nothing. */
bool port_receive(struct stack_port *port, struct endpoint *endpoint, u64 now_ns);

/* Sends what is due and allowed, up to a batch, and sets wake_ns; false if there was nothing. */
bool port_send(struct stack_port *port, u64 now_ns);
