// SPDX-License-Identifier: Apache-2.0
/*
 * The soft switches of a fabric: one process for all of them, with an AF_XDP socket on each of their ports.
 *
 * Each switch has a memory that the kernel receives into and sends from. A frame is never copied: only its
 * description moves from the ingress to the egress port. See switch/core.h for the switch itself, and
 * switch/config.h for the configuration file.
 *
 * Usage: hipsnet-soft-switch FABRIC DIGEST FILE
 * DIGEST is that of FILE, so that the command line shows which configuration is running. Forks into the
 * background, without privileges, when all switches are ready.
 */
#define _GNU_SOURCE
#include <sys/epoll.h>

#include "programs/background.h"
#include "switch/machine.h"
#include "switch/storm.h"

#define SETTLE_NS 2000000ULL /* update interval of the counters while a buffer is in use */
#define LOOK_NS   100000000ULL

/* Frames that the kernel dropped were never parsed, so they are counted without a priority. */
static void look_at_sockets(struct machine *machine)
{
	for (u32 port = 0; port < machine->core->ports; port++) {
		struct xsk_statistics found;

		xsk_statistics(machine->ports[port].xsk, &found);
		machine->core->port[port].count->drop_receive =
			found.rx_dropped + found.rx_ring_full + found.rx_foreign;
	}
}

static u64 keep_books(struct machine *machine, u64 now)
{
	u64 next = switch_watch(machine->core, now);
	bool is_busy = machine->core->stopped || machine->core->buffer.shared;

	if (machine->settle_ns <= now) {
		machine->core->memory_free = xsk_memory_free(machine->memory);
		switch_settle(machine->core, now);
		machine->settle_ns = now + (is_busy ? SETTLE_NS : LOOK_NS);
	}
	if (machine->look_ns <= now) {
		look_at_sockets(machine);
		machine->look_ns = now + LOOK_NS;
	}
	if (is_busy && machine->settle_ns > now + SETTLE_NS)
		machine->settle_ns = now + SETTLE_NS;
	next = machine->look_ns < next ? machine->look_ns : next;
	return machine->settle_ns < next ? machine->settle_ns : next;
}

static u32 turn(struct machine *machine)
{
	u32 ports = machine->core->ports, count = 0;
	u64 now = now_ns();

	for (u32 port = 0; port < ports; port++)
		count += receive_frames(machine, port, now);
	for (u32 port = 0; port < ports; port++)
		count += send_frames(machine, port, now);
	return count;
}

static u64 next_ns(const struct machine *machine, u64 now)
{
	u64 next = PFC_NEVER;

	for (u32 port = 0; port < machine->core->ports; port++) {
		u64 due = port_next_ns(machine, port, now);

		next = due < next ? due : next;
	}
	return next;
}

/* Single frames are handled at once; under load, frames of one grain share a turn. */
static void rest(u64 until)
{
	struct timespec end = {.tv_sec = (time_t)(until / NS_PER_S), .tv_nsec = (long)(until % NS_PER_S)};

	if (now_ns() < until)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
}

static void run(const struct fabric *fabric)
{
	for (;;) {
		u64 now = now_ns(), next = PFC_NEVER;
		u32 count = 0;

		for (u32 i = 0; i < fabric->count; i++) {
			u64 due = keep_books(&fabric->machines[i], now);

			count += turn(&fabric->machines[i]);
			next = due < next ? due : next;
		}
		if (count) {
			rest(now + fabric->grain_ns);
			continue;
		}
		now = now_ns();
		for (u32 i = 0; i < fabric->count; i++) {
			u64 due = next_ns(&fabric->machines[i], now);

			next = due < next ? due : next;
		}
		u64 left = next > now ? next - now : 0;
		struct timespec wait = {.tv_sec = (time_t)(left / NS_PER_S),
					.tv_nsec = (long)(left % NS_PER_S)};
		struct epoll_event news[64];

		if (epoll_pwait2(fabric->epoll, news, 64, &wait, NULL) < 0 && errno != EINTR)
			exit(1);
	}
}

int main(int argc, char **argv)
{
	struct fabric fabric;

	if (argc != 4) {
		fprintf(stderr, "usage: %s FABRIC DIGEST FILE\n", argv[0]);
		return 2;
	}
	open_many_files();
	struct switch_file *file = open_fabric(&fabric, read_config(argv[3]));

	go_on_in_background("soft-switch");
	file->pid = (u64)getpid();
	run(&fabric);
}
