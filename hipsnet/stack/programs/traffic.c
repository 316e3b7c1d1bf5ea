// SPDX-License-Identifier: Apache-2.0
/*
 * Traffic for measurements: sends RoCE-marked datagrams through AF_XDP at a rate, honours PFC, and counts
 * what arrives. One thread serves many ports in many namespaces. The UDP payload is not RoCE: it has the
 * numbers of the flow and the frame, by which the receiver detects losses.
 *
 * Usage: hipsnet-traffic MILLISECONDS < PLAN
 *	port NAMESPACE IFNAME MAP KEY RATE BURST_NS FROZEN
 *	flow PORT MAC_TO MAC_FROM IP_TO IP_FROM BYTES PRIORITY DSCP
 * MAP is the id of the XSKMAP of the interface's program, KEY the port's index in it. A port serves its
 * flows in turn. FROZEN is a priority that the port pauses at its peer throughout; -1: none. Prints a line
 * for each port and flow at the end, in order: a keyword and numbers (see report()).
 */
#define _GNU_SOURCE
#include <sys/epoll.h>

#include "programs/traffic.h"
#include "xsk/pause.h"

#define BATCH 8 /* frames sent before PFC frames are received again */

static struct traffic traffic;

static void take(struct port *port, const struct xsk_frame *frame, u64 now)
{
	struct view view = {frame->spans[0].data, frame->spans[0].bytes};
	const u8 *marks = view.at + HEADERS_BYTES;
	struct pfc pause;

	if (pfc_parse(&view, &pause)) {
		pfc_receive(&port->pfc, &pause, now);
		return;
	}
	if (view.bytes < HEADERS_BYTES + MARKS_BYTES || get32(marks) >= traffic.flow_count)
		return;
	struct flow *flow = &traffic.flows[get32(marks)];
	u64 number = get64(marks + 4);

	flow->late += number < flow->next;
	flow->next = number < flow->next ? flow->next : number + 1;
	flow->first_ns = flow->received++ ? flow->first_ns : now;
	flow->received_bytes += frame->bytes;
	flow->last_ns = now;
}

static u32 receive(struct port *port, u64 now)
{
	struct xsk_frame frames[64];
	u32 count = xsk_receive(port->xsk, frames, 64);

	for (u32 i = 0; i < count; i++)
		take(port, &frames[i], now);
	xsk_release(port->xsk, frames, count);
	return count;
}

static void build(u8 *room, struct flow *flow)
{
	memcpy(room, flow->headers, HEADERS_BYTES);
	put32(room + HEADERS_BYTES, (u32)(flow - traffic.flows));
	put64(room + HEADERS_BYTES + 4, flow->sent++);
}

/* The next flow whose priority is not paused. */
static struct flow *next_flow(struct port *port, u64 now)
{
	for (u32 i = 0; i < port->count; i++) {
		struct flow *flow = &traffic.flows[port->flows[port->turn++ % port->count]];

		if (!pfc_is_paused(&port->pfc, flow->priority, now))
			return flow;
	}
	return NULL;
}

static u32 send_pauses(struct port *port, u64 now)
{
	u32 count = 0;

	while (pfc_refresh_ns(&port->pfc) <= now && xsk_send_pause(port->xsk, &port->pfc, port->mac, now))
		count++;
	return count;
}

static u32 transmit(struct port *port, u64 now)
{
	u32 count = send_pauses(port, now);

	for (u32 i = 0; i < BATCH && port->count && pacer_may_send(&port->pacer, now); i++) {
		struct flow *flow = next_flow(port, now);
		u8 *room = flow ? xsk_reserve(port->xsk) : NULL;

		if (!room)
			break;
		build(room, flow);
		xsk_commit(port->xsk, room, flow->bytes);
		pacer_sent(&port->pacer, flow->bytes, now);
		count++;
	}
	if (count || port->is_behind)
		port->is_behind = xsk_kick(port->xsk) != 0;
	return count;
}

/* When the earliest port may send: a paused one when its pause ends, or by the frame that ends it. */
static u64 next_ns(u64 now, u64 end)
{
	for (u32 i = 0; i < traffic.port_count; i++) {
		struct port *port = &traffic.ports[i];
		u64 due = port->is_behind ? now + 20000 : pfc_refresh_ns(&port->pfc);

		for (u32 flow = 0; flow < port->count; flow++) {
			u64 until =
				port->pfc.priority[traffic.flows[port->flows[flow]].priority].paused_until_ns;
			u64 free = until > port->pacer.next_ns ? until : port->pacer.next_ns;

			due = free < due ? free : due;
		}
		end = due < end ? due : end;
	}
	return end;
}

static void run(u64 end)
{
	for (u64 now = now_ns(); now < end; now = now_ns()) {
		u32 count = 0;

		for (u32 i = 0; i < traffic.port_count; i++)
			count += receive(&traffic.ports[i], now);
		for (u32 i = 0; i < traffic.port_count; i++)
			count += transmit(&traffic.ports[i], now);
		if (count)
			continue;
		now = now_ns();
		u64 due = next_ns(now, end), left = due > now ? due - now : 0;
		struct timespec wait = {.tv_sec = (time_t)(left / NS_PER_S),
					.tv_nsec = (long)(left % NS_PER_S)};
		struct epoll_event news[64];

		epoll_pwait2(traffic.epoll, news, 64, &wait, NULL);
	}
}

static void report(void)
{
	u64 now = now_ns();

	for (u32 i = 0; i < traffic.port_count; i++) {
		struct xsk_statistics found;

		xsk_statistics(traffic.ports[i].xsk, &found);
		pfc_settle(&traffic.ports[i].pfc, now);
		printf("port %llu %llu %llu %llu", found.tx_frames, found.tx_bytes, found.rx_frames,
		       found.rx_dropped + found.rx_ring_full);
		for (u32 priority = 0; priority < PRIORITIES; priority++)
			printf(" %llu %llu", traffic.ports[i].pauses[priority].rx_pause_frames,
			       traffic.ports[i].pauses[priority].rx_pause_us);
		printf("\n");
	}
	for (u32 i = 0; i < traffic.flow_count; i++)
		printf("flow %llu %llu %llu %llu %llu\n", traffic.flows[i].sent, traffic.flows[i].received,
		       traffic.flows[i].received_bytes, traffic.flows[i].late,
		       traffic.flows[i].last_ns - traffic.flows[i].first_ns);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s MILLISECONDS < PLAN\n", argv[0]);
		return 2;
	}
	open_many_files();
	traffic.epoll = epoll_create1(EPOLL_CLOEXEC);
	read_plan(&traffic, stdin);
	prctl(PR_SET_TIMERSLACK, 1);
	go_first(TRAFFIC_PRIORITY);
	drop_privileges();
	run(now_ns() + strtoull(argv[1], NULL, 10) * 1000000);
	/* Stop sending; frames in flight still arrive. */
	for (u32 i = 0; i < traffic.port_count; i++)
		traffic.ports[i].count = 0;
	run(now_ns() + 500000000);
	report();
	return 0;
}
