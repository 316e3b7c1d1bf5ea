/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the TCP wire: its queue of frames to send, and the frame being received. */
#pragma once

#include <sys/epoll.h>

#include "engine/wire/ring.h"
#include "engine/wire/tcp.h"
#include "engine/wire/wire.h"

#define TCP_HEADER    24
#define TCP_EVENTS    64
#define TCP_FRAMES    256     /* capacity of a connection's queue */
#define TCP_LOW_WATER 0x10000 /* below it, an early wake-up costs less than waiting for more data */
#define TCP_REASON    160

enum tcp_kind { TCP_WRITE, TCP_MESSAGE };

/* A queued frame: the header, and for a write the caller's memory; a message is in the ring as a whole. */
struct tcp_frame {
	u8 header[TCP_HEADER];
	u8 kind;
	const u8 *data;
	u32 bytes, sent; /* header and payload; of these, sent */
	u32 immediate;
	u32 ring_bytes; /* freed in the ring when the frame is sent */
};

struct tcp_region {
	u8 *memory;
	u64 bytes;
};

struct tcp_connection {
	int fd;
	bool is_open, is_full; /* full: wait for EPOLLOUT before sending */
	char why[TCP_REASON];

	struct tcp_frame frames[TCP_FRAMES];
	u32 first, end;   /* of the queue; never wrapped */
	struct ring ring; /* of messages */
	u8 *rest;         /* of an abandoned write that was started: a copy, or NULL */

	u8 *ahead; /* received, not parsed yet */
	u32 ahead_bytes, ahead_max;
	u8 *target; /* the rest of the write being received */
	u32 target_bytes, immediate;
	wire_key target_key;
	bool discards; /* the target's memory must not be accessed any more */
	u32 low_water;
};

struct tcp_wire {
	u32 connections, message_max;
	int epoll, kick;
	struct epoll_event events[TCP_EVENTS];
	int events_left; /* of the last wait, not processed yet */
	u64 calls;
	struct tcp_connection *connection;
	struct tcp_region regions[TCP_WIRE_REGIONS];
	u32 next_region;
	bool is_abandoned;
};

bool tcp_queue_write(struct tcp_connection *self, const void *data, u32 bytes, wire_key key, u64 offset,
		     u32 immediate);
bool tcp_queue_message(struct tcp_connection *self, const void *header, u32 header_bytes, const void *payload,
		       u32 payload_bytes);
void tcp_abandon(struct tcp_connection *self);

/* Both report to the core, and close the connection (is_open, why) on an error. The second returns whether
 * any data has arrived. */
void tcp_send(struct tcp_wire *wire, u32 connection, struct core *core);
bool tcp_receive(struct tcp_wire *wire, u32 connection, struct core *core, u64 now_ns);
