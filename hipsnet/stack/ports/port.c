// SPDX-License-Identifier: Apache-2.0
/* One port: receives frames and pauses, and sends the frames of its pairs in turn. */
#include <string.h>

#include "ports/port.h"
#include "ports/storm.h"
#include "ports/transit.h"
#include "wire/bytes.h"
#include "wire/ip.h"
#include "wire/pfc.h"
#include "xsk/pause.h"

#define SEND_BATCH 16         /* frames sent before PFC frames are received again */
#define LATE_NS    5000000ULL /* scheduling delay of a process on a busy machine */
#define LOOK_NS    1000000ULL /* poll interval of a frozen port's fill level */
#define SETTLE_NS  5000000ULL

static bool is_mac_control(const struct xsk_frame *frame)
{
	return frame->spans[0].bytes >= ETHERNET_BYTES &&
	       get16(frame->spans[0].data + ETHERNET_TYPE) == ETHERTYPE_MAC_CONTROL;
}

/*
 * A pause runs from its arrival, which the program has recorded, not from when this process reads the frame.
 * Read late, it may be over already; the time that it lasted is counted all the same.
 */
static void receive_pause(struct stack_port *port, const struct pfc *pause, u64 now_ns)
{
	const struct pfc_port before = port->pfc;

	pfc_receive(&port->pfc, pause, now_ns);
	for (u32 priority = 0; priority < PRIORITIES && port->pauses != &port->own; priority++) {
		u64 since_ns = __atomic_load_n(&port->pauses->since_ns[priority], __ATOMIC_RELAXED);
		u64 until_ns = __atomic_load_n(&port->pauses->until_ns[priority], __ATOMIC_RELAXED);
		u64 counted_ns = before.priority[priority].paused_counted_ns;
		struct pfc_priority *state = &port->pfc.priority[priority];

		if (!(pause->enabled & (1u << priority)))
			continue;
		if (!pfc_is_paused(&before, priority, now_ns))
			state->paused_counted_ns = since_ns > counted_ns ? since_ns : counted_ns;
		if (state->paused_until_ns > until_ns)
			state->paused_until_ns = until_ns;
	}
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
	receive_pause(port, &pause, now_ns);
}

/* Dispatches a frame; false if it is held in transit, so that it must not be released. */
static bool sort_frame(struct stack *stack, struct stack_port *port, const struct xsk_frame *frame,
		       u64 now_ns)
{
	if (is_mac_control(frame))
		take_pause(port, frame, now_ns);
	else if (memcmp(frame->spans[0].data + ETHERNET_TO, port->config.mac, MAC_BYTES))
		return !transit_take(stack, port, frame);
	else if (!endpoint_receive(stack->endpoint, frame->spans, frame->count, now_ns))
		port->counters.rx_dropped++;
	return true;
}

u32 port_receive(struct stack *stack, struct stack_port *port, u64 now_ns)
{
	struct xsk_frame frames[PORT_BATCH];
	u32 waiting = xsk_waiting(port->xsk), done = 0;

	if (waiting > port->counters.most_waiting)
		port->counters.most_waiting = waiting;
	if (port->config.xoff_chunks)
		pfc_watch(&port->pfc, port->config.priority, waiting + port->held_chunks,
			  port->config.xoff_chunks, port->config.xon_chunks, now_ns);
	if (port->is_frozen || !waiting) {
		xsk_refill(port->xsk);
		return 0;
	}
	u32 count = xsk_receive(port->xsk, frames, PORT_BATCH);

	for (u32 i = 0; i < count; i++) {
		u32 chunks = frames[i].count;

		if (sort_frame(stack, port, &frames[i], now_ns))
			frames[done++] = frames[i];
		port->stale_chunks -= chunks < port->stale_chunks ? chunks : port->stale_chunks;
	}
	port->counters.rx_frames += count;
	xsk_release(port->xsk, frames, done);
	return count;
}

/* PFC frames go before all others and are not paced: they prevent an overflow here. */
static bool send_pause(struct stack_port *port, u64 now_ns)
{
	bool is_sent = xsk_send_pause(port->xsk, &port->pfc, port->config.mac, now_ns);

	port->counters.tx_pauses += is_sent;
	return is_sent;
}

/* Whether the priority of a pair is paused; if so, wakes the port when the pause ends. */
static bool is_paused(struct stack_port *port, const struct stack_pair *pair, u64 now_ns)
{
	if (!pfc_is_paused(&port->pfc, pair->priority, now_ns))
		return false;
	port_wake_at(port, port->pfc.priority[pair->priority].paused_until_ns);
	port->counters.paused++;
	return true;
}

/* Builds the frame of the next pair that has one and may send it; returns its length, or 0. */
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
		port_wake_at(port, rc_next_deadline(pair->rc));
	}
	return 0;
}

static u32 send_own(struct stack_port *port, u64 now_ns)
{
	u8 *frame = xsk_reserve(port->xsk);

	if (!frame) {
		port_wake_at(port, now_ns + PORT_RETRY_NS);
		return 0;
	}
	u32 bytes = next_frame(port, frame, now_ns);

	xsk_commit(port->xsk, frame, bytes);
	return bytes;
}

/*
 * Sends one frame if the rate permits; frames in transit go first. A port that is late while frames wait may
 * catch up by LATE_NS, an idle cable only by the configured burst.
 */
static bool send_frame(struct stack *stack, struct stack_port *port, u64 now_ns)
{
	if (!pacer_may_send(&port->pacer, now_ns)) {
		u64 some_ns = now_ns + port->config.burst_ns / 4;

		/* Sleep for a quarter of the burst rather than wake up for each frame. */
		port_wake_at(port, port->pacer.next_ns > some_ns ? port->pacer.next_ns : some_ns);
		port->pacer.burst_ns = LATE_NS > port->config.burst_ns ? LATE_NS : port->config.burst_ns;
		port->counters.paced++;
		return false;
	}
	u32 bytes = transit_send(stack, port, now_ns);
	if (!bytes)
		bytes = send_own(port, now_ns);
	if (!bytes) {
		port->pacer.burst_ns = port->config.burst_ns;
		return false;
	}
	pacer_sent(&port->pacer, bytes, now_ns);
	port->counters.tx_frames++;
	port->counters.tx_bytes += bytes;
	return true;
}

/* Updates the shared counters every SETTLE_NS while a pause lasts, for those who read them. */
static void settle(struct stack_port *port, u64 now_ns)
{
	bool lasts = false;

	for (u32 priority = 0; priority < PRIORITIES; priority++)
		lasts |= port->pfc.priority[priority].stopped || pfc_is_paused(&port->pfc, priority, now_ns);
	if (port->settle_ns <= now_ns) {
		pfc_settle(&port->pfc, now_ns);
		port->settle_ns = now_ns + SETTLE_NS;
	}
	if (lasts)
		port_wake_at(port, port->settle_ns);
}

bool port_send(struct stack *stack, struct stack_port *port, u64 now_ns)
{
	u32 count = 0;

	port->wake_ns = RC_NEVER;
	while (send_pause(port, now_ns))
		count++;
	port_wake_at(port, pfc_refresh_ns(&port->pfc));
	while (count < SEND_BATCH && send_frame(stack, port, now_ns))
		count++;
	transit_settle(stack, port, now_ns);
	storm_watch(stack, port, now_ns);
	settle(port, now_ns);
	if (count || port->unsent > 0)
		port->unsent = xsk_kick(port->xsk);
	if (port->unsent > 0)
		port_wake_at(port, now_ns + PORT_RETRY_NS);
	if (port->is_frozen)
		port_wake_at(port, now_ns + LOOK_NS);
	return count >= SEND_BATCH;
}
