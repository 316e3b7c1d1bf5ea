/*
 * Traffic for measurements: sends RoCE-marked datagrams by AF_XDP at a rate, obeys PFC, and counts what
 *comes. One process and thread for many ports in many namespaces. What it sends is no RoCE behind the UDP
 *header: a flow's number and the frame's, by which the receiver sees what is missing.
 *
 * Usage: hipsnet-traffic MILLISECONDS < PLAN
 *	port NAMESPACE IFNAME MAP KEY RATE BURST_NS FROZEN
 *	flow PORT MAC_TO MAC_FROM IP_TO IP_FROM BYTES PRIORITY DSCP
 * MAP is the id of the XSKMAP of the interface's program, KEY the port's index in it. A port with several
 *flows sends them in turns. FROZEN is the priority that a port stops for good at the other end of its cable,
 *-1: none. At the end it prints a line for each port and flow, in order: a word, then numbers (see report()).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <sys/epoll.h>

#include "cable/pacer.h"
#include "cable/pfc.h"
#include "programs/background.h"
#include "wire/ip.h"
#include "xsk/pause.h"
#include "xsk/xsk.h"

enum {
	MOST_PORTS = 128,
	MOST_FLOWS = 1024,
	BATCH = 8, /* frames sent before the next look for a pause */
	RECEIVE_CHUNKS = 2560,
	SEND_FRAMES = 256,
	ROCE_PORT = 4791,
	HEADERS_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES,
	MARKS_BYTES = 12, /* flow and sequence number */
};

struct flow {
	u32 port, bytes;
	u8 priority;
	u8 headers[HEADERS_BYTES];
	u64 sent;
	u64 received, received_bytes, next,
		late; /* at the receiver; late: after one that was sent after it */
	u64 first_ns, last_ns;
};

struct port {
	struct xsk_memory *memory;
	struct xsk *xsk;
	struct pacer pacer;
	struct pfc_port pfc;
	struct pfc_counters pauses[PRIORITIES];
	u32 flows[MOST_FLOWS];
	u32 count, turn;
	u8 mac[MAC_BYTES];
	bool is_behind;
};

static struct port ports[MOST_PORTS];
static struct flow flows[MOST_FLOWS];
static u32 port_count, flow_count;

static void read_mac(const char *text, u8 *mac)
{
	if (sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
		   &mac[5]) != MAC_BYTES) {
		errno = EINVAL;
		fail("read the MAC", text);
	}
}

static void open_port(const char *line, int epoll)
{
	struct port *port = &ports[port_count];
	struct epoll_event news = {.events = EPOLLIN};
	char namespace[64], ifname[16];
	unsigned long long rate, burst;
	u32 map, key;
	int frozen;

	errno = EINVAL;
	if (port_count == MOST_PORTS || sscanf(line, "port %63s %15s %u %u %llu %llu %d", namespace, ifname,
					       &map, &key, &rate, &burst, &frozen) != 7)
		fail("read", line);
	enter(namespace);
	errno = -xsk_memory_open(&port->memory, RECEIVE_CHUNKS, SEND_FRAMES, XSK_MOST_BYTES);
	if (!errno)
		errno = -xsk_open(&port->xsk, port->memory, ifname, 0, XSK_COPY);
	if (errno)
		fail("open a socket on", ifname);
	xsk_refill(port->xsk);
	int fd = bpf_map_get_fd_by_id(map);
	errno = fd < 0 ? -fd : -xsk_join(port->xsk, fd, key);
	if (errno || epoll_ctl(epoll, EPOLL_CTL_ADD, xsk_fd(port->xsk), &news) < 0)
		fail("receive from", ifname);
	close(fd);
	pacer_init(&port->pacer, rate, burst);
	pfc_init(&port->pfc, rate, port->pauses);
	if (frozen >= 0)
		pfc_stop(&port->pfc, (u32)frozen % PRIORITIES, now_ns());
	port_count++;
}

static void add_flow(const char *line)
{
	struct flow *flow = &flows[flow_count];
	char to[32], from[32], ip_to[32], ip_from[32];
	u32 priority, dscp;

	errno = EINVAL;
	if (flow_count == MOST_FLOWS ||
	    sscanf(line, "flow %u %31s %31s %31s %31s %u %u %u", &flow->port, to, from, ip_to, ip_from,
		   &flow->bytes, &priority, &dscp) != 8 ||
	    flow->port >= port_count || flow->bytes < HEADERS_BYTES + MARKS_BYTES ||
	    flow->bytes > XSK_MOST_BYTES)
		fail("read", line);
	flow->priority = priority % PRIORITIES;
	struct room room = {flow->headers, HEADERS_BYTES};
	struct ethernet ethernet = {.type = ETHERTYPE_IPV4};
	struct ipv4 ip = {
		.from = ntohl(inet_addr(ip_from)),
		.to = ntohl(inet_addr(ip_to)),
		.total = (u16)(flow->bytes - ETHERNET_BYTES),
		.dscp = (u8)dscp,
		.ecn = ECN_CAPABLE_0,
		.ttl = 64,
		.protocol = PROTOCOL_UDP,
	};
	/* The flow's number is its UDP port: equal ways are chosen by it. */
	struct udp udp = {(u16)(49152 + flow_count), ROCE_PORT, (u16)(ip.total - IPV4_BYTES)};

	read_mac(to, ethernet.to);
	read_mac(from, ethernet.from);
	memcpy(ports[flow->port].mac, ethernet.from, MAC_BYTES);
	ethernet_emit(&room, &ethernet);
	ipv4_emit(&room, &ip);
	udp_emit(&room, &udp);
	ports[flow->port].flows[ports[flow->port].count++] = flow_count++;
}

static void take(struct port *port, const struct xsk_frame *frame, u64 now)
{
	struct view view = {frame->spans[0].data, frame->spans[0].bytes};
	const u8 *marks = view.at + HEADERS_BYTES;
	struct pfc pause;

	if (pfc_parse(&view, &pause)) {
		pfc_receive(&port->pfc, &pause, now);
		return;
	}
	if (view.bytes < HEADERS_BYTES + MARKS_BYTES || get32(marks) >= flow_count)
		return;
	struct flow *flow = &flows[get32(marks)];
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
	put32(room + HEADERS_BYTES, (u32)(flow - flows));
	put64(room + HEADERS_BYTES + 4, flow->sent++);
}

/* The next flow whose priority is not paused. */
static struct flow *next_flow(struct port *port, u64 now)
{
	for (u32 i = 0; i < port->count; i++) {
		struct flow *flow = &flows[port->flows[port->turn++ % port->count]];

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
	for (u32 i = 0; i < port_count; i++) {
		struct port *port = &ports[i];
		u64 due = port->is_behind ? now + 20000 : pfc_refresh_ns(&port->pfc);

		for (u32 flow = 0; flow < port->count; flow++) {
			u64 until = port->pfc.priority[flows[port->flows[flow]].priority].paused_until_ns;
			u64 free = until > port->pacer.next_ns ? until : port->pacer.next_ns;

			due = free < due ? free : due;
		}
		end = due < end ? due : end;
	}
	return end;
}

static void run(u64 end, int epoll)
{
	for (u64 now = now_ns(); now < end; now = now_ns()) {
		u32 count = 0;

		for (u32 i = 0; i < port_count; i++)
			count += receive(&ports[i], now);
		for (u32 i = 0; i < port_count; i++)
			count += transmit(&ports[i], now);
		if (count)
			continue;
		now = now_ns();
		u64 due = next_ns(now, end), left = due > now ? due - now : 0;
		struct timespec wait = {.tv_sec = (time_t)(left / NS_PER_S),
					.tv_nsec = (long)(left % NS_PER_S)};
		struct epoll_event news[64];

		epoll_pwait2(epoll, news, 64, &wait, NULL);
	}
}

static void report(void)
{
	u64 now = now_ns();

	for (u32 i = 0; i < port_count; i++) {
		struct xsk_statistics found;

		xsk_statistics(ports[i].xsk, &found);
		pfc_settle(&ports[i].pfc, now);
		printf("port %llu %llu %llu %llu", found.tx_frames, found.tx_bytes, found.rx_frames,
		       found.rx_dropped + found.rx_ring_full);
		for (u32 priority = 0; priority < PRIORITIES; priority++)
			printf(" %llu %llu", ports[i].pauses[priority].rx_pause_frames,
			       ports[i].pauses[priority].rx_pause_us);
		printf("\n");
	}
	for (u32 i = 0; i < flow_count; i++)
		printf("flow %llu %llu %llu %llu %llu\n", flows[i].sent, flows[i].received,
		       flows[i].received_bytes, flows[i].late, flows[i].last_ns - flows[i].first_ns);
}

int main(int argc, char **argv)
{
	char *line = NULL;
	size_t room = 0;
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (argc != 2) {
		fprintf(stderr, "usage: %s MILLISECONDS < PLAN\n", argv[0]);
		return 2;
	}
	open_many_files();
	while (getline(&line, &room, stdin) >= 0)
		if (strncmp(line, "port ", 5) == 0)
			open_port(line, epoll);
		else
			add_flow(line);
	prctl(PR_SET_TIMERSLACK, 1);
	go_first(TRAFFIC_PRIORITY);
	run(now_ns() + strtoull(argv[1], NULL, 10) * 1000000, epoll);
	/* What is under way still comes: nothing is sent any more. */
	for (u32 i = 0; i < port_count; i++)
		ports[i].count = 0;
	run(now_ns() + 500000000, epoll);
	report();
	return 0;
}
