/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the TCP wire: what waits to leave, and the frame that is arriving. */
#pragma once

#include "engine/wire/tcp.h"
#include "engine/wire/wire.h"

#define TCP_HEADER    24
#define TCP_FRAMES    256     /* that wait, of a connection */
#define TCP_LOW_WATER 0x10000 /* below it, waking up for what is there costs less than waiting for more */
#define TCP_REASON    160

enum tcp_kind { TCP_WRITE, TCP_MESSAGE };

/* What waits: a header and, of a write, the caller's memory behind it; a message lies in the ring as a whole.
 */
struct tcp_frame {
	u8 header[TCP_HEADER];
	u8 kind;
	const u8 *data;
	u32 bytes, sent; /* header and payload; of these, gone */
	u32 immediate;
	u32 ring_bytes; /* of the ring that it gives back */
};

struct tcp_region {
	u8 *memory;
	u64 bytes;
};

struct tcp_connection {
	int fd;
	bool is_open, is_full; /* full: the socket takes nothing until it says so */
	char why[TCP_REASON];

	struct tcp_frame frames[TCP_FRAMES];
	u32 first, end;           /* of the frames that wait; they run on without bound */
	u8 *ring;                 /* TCP_WIRE_RING bytes, for messages */
	u32 ring_first, ring_end; /* run on without bound */

	u8 *ahead; /* received, not parsed yet */
	u32 ahead_bytes, ahead_max;
	u8 *target; /* the rest of the write that is arriving */
	u32 target_bytes, immediate;
	u32 low_water;
};

struct tcp_wire {
	u32 connections, message_max;
	int epoll;
	u64 calls;
	struct tcp_connection *connection;
	struct tcp_region regions[TCP_WIRE_REGIONS];
	u32 next_region;
};

bool tcp_queue_write(struct tcp_connection *self, const void *data, u32 bytes, wire_key key, u64 offset,
		     u32 immediate);
bool tcp_queue_message(struct tcp_connection *self, const void *header, u32 header_bytes, const void *payload,
		       u32 payload_bytes);
void tcp_abandon(struct tcp_connection *self);

/* Both report to the core, and end the connection (is_open, why) where it cannot go on. The second returns
 * whether anything has come. */
void tcp_send(struct tcp_wire *wire, u32 connection, struct core *core);
bool tcp_receive(struct tcp_wire *wire, u32 connection, struct core *core, u64 now_ns);
