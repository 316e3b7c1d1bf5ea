/* One port: frames to the endpoint, pauses to their priorities, and the pairs' frames out, each in its turn.
 */
#include <string.h>

#include "bytes.h"
#include "stack_port.h"
#include "wire_ip.h"
#include "wire_pfc.h"

#define BATCH    64
#define RETRY_NS 50000ULL   /* when the interface takes no more for the moment */
#define LOOK_NS  1000000ULL /* at what waits on a frozen port */

static bool is_mac_control(const struct xsk_frame *frame)
{
	return frame->spans[0].bytes >= ETHERNET_BYTES &&
	       get16(frame->spans[0].data + ETHERNET_TYPE) == ETHERTYPE_MAC_CONTROL;
}

static void take_pause(struct stack_port *port, const struct xsk_frame *frame, u64 now_ns)
{
	const struct view view = {frame->spans[0].data, frame->spans[0].bytes};
	struct pfc pause;

	if (!pfc_parse(&view, &pause)) {
		port->counters.rx_dropped++;
		return;
	}
	port->counters.rx_pauses++;
	pfc_receive(&port->pfc, &pause, now_ns);
}

bool port_receive(struct stack_port *port, struct endpoint *endpoint, u64 now_ns)
{
	struct xsk_frame frames[BATCH];
	u32 waiting = xsk_waiting(port->xsk);

	if (waiting > port->counters.most_waiting)
		port->counters.most_waiting = waiting;
	if (port->config.xoff_chunks)
		pfc_watch(&port->pfc, port->config.priority, waiting, port->config.xoff_chunks,
			  port->config.xon_chunks, now_ns);
	if (port->is_frozen || !waiting)
		return false;

	u32 count = xsk_receive(port->xsk, frames, BATCH);

	for (u32 i = 0; i < count; i++) {
		if (is_mac_control(&frames[i]))
			take_pause(port, &frames[i], now_ns);
		else if (!endpoint_receive(endpoint, frames[i].spans, frames[i].count, now_ns))
			port->counters.rx_dropped++;
	}
	port->counters.rx_frames += count;
	xsk_release(port->xsk, frames, count);
	return true;
}

/* Pauses of the other end go first, and no rate holds them: they are for when there is no room. */
static bool send_pause(struct stack_port *port, u64 now_ns)
{
	u8 *frame = xsk_reserve(port->xsk);
	struct pfc pause;

	if (!frame || !pfc_take(&port->pfc, &pause, now_ns))
		return false;
	struct room room = {frame, xsk_room(port->xsk)};

	memcpy(pause.from, port->config.mac, MAC_BYTES);
	pfc_emit(&room, &pause);
	xsk_commit(port->xsk, frame, ETHERNET_BYTES + PFC_BYTES);
	port->counters.tx_pauses++;
	return true;
}

static void wake_at(struct stack_port *port, u64 at_ns)
{
	if (at_ns < port->wake_ns)
		port->wake_ns = at_ns;
}

/* The pause of a pair's priority, if there is one, ends the matter until it is over. */
static bool is_paused(struct stack_port *port, const struct stack_pair *pair, u64 now_ns)
{
	if (!pfc_is_paused(&port->pfc, pair->priority, now_ns))
		return false;
	wake_at(port, port->pfc.priority[pair->priority].paused_until_ns);
	port->counters.paused++;
	return true;
}

/* The frame of the next pair that has one to send; 0 if none has, or may. */
static u32 next_frame(struct stack_port *port, u8 *frame, u64 now_ns)
{
	const struct span room = {frame, xsk_room(port->xsk)};

	for (u32 i = 0; i < port->count; i++) {
		struct stack_pair *pair = &port->pairs[(port->turn + i) % port->count];
		u64 due_ns = rc_next_deadline(pair->rc);

		if (due_ns <= now_ns && is_paused(port, pair, now_ns))
			continue;
		u32 bytes = due_ns <= now_ns ? rc_transmit(pair->rc, &room, 1, now_ns) : 0;
		if (bytes) {
			port->turn = (port->turn + i + 1) % port->count;
			return bytes;
		}
		wake_at(port, rc_next_deadline(pair->rc));
	}
	return 0;
}

/* One frame, if any may go now. */
static bool send_frame(struct stack_port *port, u64 now_ns)
{
	if (!pacer_may_send(&port->pacer, now_ns)) {
		port->counters.paced++;
		wake_at(port, port->pacer.next_ns);
		return false;
	}
	u8 *frame = xsk_reserve(port->xsk);
	if (!frame) {
		wake_at(port, now_ns + RETRY_NS);
		return false;
	}
	u32 bytes = next_frame(port, frame, now_ns);

	xsk_commit(port->xsk, frame, bytes);
	if (!bytes)
		return false;
	pacer_sent(&port->pacer, bytes, now_ns);
	port->counters.tx_frames++;
	port->counters.tx_bytes += bytes;
	return true;
}

bool port_send(struct stack_port *port, u64 now_ns)
{
	u32 count = 0;

	port->wake_ns = RC_NEVER;
	while (send_pause(port, now_ns))
		count++;
	wake_at(port, pfc_refresh_ns(&port->pfc));
	while (count < BATCH && send_frame(port, now_ns))
		count++;
	if (count || port->unsent > 0)
		port->unsent = xsk_kick(port->xsk);
	if (port->unsent > 0)
		wake_at(port, now_ns + RETRY_NS);
	if (port->is_frozen)
		wake_at(port, now_ns + LOOK_NS);
	return count > 0;
}
