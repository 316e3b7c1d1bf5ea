/* The other end of a server's cable, at a switch: hands every frame on, after its losses and its counts. */
#include "delay.h"
#include "parse.h"
#include "tables.h"

BPF_ARRAY(port_of, u32, MAX_IFINDEX); /* port index + 1 by ifindex, 0 for others */
BPF_ARRAY(ports, struct port, MAX_PORTS);
BPF_PERCPU_ARRAY(counters, struct counters, MAX_PORTS);
RINGS(rings);

int cable(struct xdp_md *frame)
{
	u32 ifindex = frame->ingress_ifindex;
	u32 *number = port_of.lookup(&ifindex);
	if (!number || !*number)
		return XDP_PASS;

	u32 index = *number - 1;
	struct port *port = ports.lookup(&index);
	struct counters *count = counters.lookup(&index);
	if (!port || !count)
		return XDP_PASS;

	void *ring = port->delay_us ? rings.lookup(&index) : NULL;
	int verdict = pass_cable(frame, port, ring, count);
	if (verdict != XDP_PASS)
		return verdict;

	struct cursor cursor = cursor_of(frame);
	struct ethhdr *eth = take_ethernet(&cursor);
	if (eth && eth->h_proto == bpf_htons(ETHERTYPE_MAC_CONTROL)) {
		struct mac_control *control = take_mac_control(&cursor);

		if (control && is_pfc(eth, control))
			count_pfc(count, control->class_enable);
	}
	return up(&count->passed);
}
