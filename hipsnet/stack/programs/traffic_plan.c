// SPDX-License-Identifier: Apache-2.0
/* Reads the plan of a measurement: opens ports, builds the headers of flows. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <sys/epoll.h>

#include "programs/traffic.h"

static void read_mac(const char *text, u8 *mac)
{
	if (sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
		   &mac[5]) != MAC_BYTES) {
		errno = EINVAL;
		fail("read the MAC", text);
	}
}

static void open_port(struct traffic *traffic, const char *line)
{
	struct port *port = &traffic->ports[traffic->port_count];
	struct epoll_event news = {.events = EPOLLIN};
	char namespace[64], ifname[16];
	unsigned long long rate, burst;
	u32 map, key;
	int frozen;

	errno = EINVAL;
	if (traffic->port_count == MOST_PORTS || sscanf(line, "port %63s %15s %u %u %llu %llu %d", namespace,
							ifname, &map, &key, &rate, &burst, &frozen) != 7)
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
	if (errno || epoll_ctl(traffic->epoll, EPOLL_CTL_ADD, xsk_fd(port->xsk), &news) < 0)
		fail("receive from", ifname);
	close(fd);
	pacer_init(&port->pacer, rate, burst);
	pfc_init(&port->pfc, rate, port->pauses);
	if (frozen >= 0)
		pfc_stop(&port->pfc, (u32)frozen % PRIORITIES, now_ns());
	traffic->port_count++;
}

static void add_flow(struct traffic *traffic, const char *line)
{
	struct flow *flow = &traffic->flows[traffic->flow_count];
	char to[32], from[32], ip_to[32], ip_from[32];
	u32 priority, dscp;

	errno = EINVAL;
	if (traffic->flow_count == MOST_FLOWS ||
	    sscanf(line, "flow %u %31s %31s %31s %31s %u %u %u", &flow->port, to, from, ip_to, ip_from,
		   &flow->bytes, &priority, &dscp) != 8 ||
	    flow->port >= traffic->port_count || flow->bytes < HEADERS_BYTES + MARKS_BYTES ||
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
	/* The flow's number determines its UDP port, and so its path among those of equal cost. */
	struct udp udp = {(u16)(49152 + traffic->flow_count), ROCE_PORT, (u16)(ip.total - IPV4_BYTES)};

	read_mac(to, ethernet.to);
	read_mac(from, ethernet.from);
	struct port *port = &traffic->ports[flow->port];

	memcpy(port->mac, ethernet.from, MAC_BYTES);
	ethernet_emit(&room, &ethernet);
	ipv4_emit(&room, &ip);
	udp_emit(&room, &udp);
	port->flows[port->count++] = traffic->flow_count++;
}

void read_plan(struct traffic *traffic, FILE *file)
{
	char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, file) >= 0)
		if (strncmp(line, "port ", 5) == 0)
			open_port(traffic, line);
		else
			add_flow(traffic, line);
	free(line);
}
