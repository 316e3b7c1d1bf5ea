/* The end of a server's cable at a soft switch (hipsnet/stack/soft_switch.c): every frame goes to the
 * switch's socket, after the losses and the delay of the cable. */
#include "delay.h"
#include "parse.h"
#include "tables.h"

BPF_ARRAY(port_of, u32, MAX_IFINDEX); /* port index + 1 by ifindex, 0 for others */
BPF_ARRAY(ports, struct port, MAX_PORTS);
BPF_PERCPU_ARRAY(counters, struct counters, MAX_PORTS);
RINGS(rings);
BPF_XSKMAP(endpoints, MAX_PORTS); /* AF_XDP sockets of the ports' first queues */

int switched(struct xdp_md *frame)
{
	u32 ifindex = frame->ingress_ifindex;
	u32 *number = port_of.lookup(&ifindex);
	if (!number || !*number)
		return XDP_DROP;

	u32 index = *number - 1;
	struct port *port = ports.lookup(&index);
	struct counters *count = counters.lookup(&index);
	if (!port || !count)
		return XDP_DROP;

	void *ring = port->delay_us ? rings.lookup(&index) : NULL;
	int verdict = pass_cable(frame, port, ring, count);
	if (verdict != XDP_PASS)
		return verdict;
	if (frame->rx_queue_index || endpoints.redirect_map(index, 0) != XDP_REDIRECT)
		return drop(&count->drop_no_switch);
	count->switched++;
	return XDP_REDIRECT;
}
