/*
 * The soft switches of a fabric: one process that plays all of them, on AF_XDP sockets at their ports.
 *
 * Each switch has a memory of its own, which the kernel receives into and sends from. A frame lies in it
 * once, from the port it came in by to the port it leaves by; what moves is its description. See
 * switch_core.h for what a switch does, and switch_config.h for the file.
 *
 * Usage: hipsnet-soft-switch FABRIC DIGEST FILE
 * DIGEST is that of the file: it tells by the command line which configuration is running. Returns when the
 * switches are ready, and goes on in the background, in the last of their namespaces.
 */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "background.h"
#include "switch_config.h"
#include "xsk.h"

#define BATCH          32         /* frames of one port, before the next has its turn */
#define SEND_FRAMES    256        /* of a switch: for its own PFC frames, and copies of what it floods */
#define SPARE_PACKETS  1024       /* of a switch: for what it floods */
#define SETTLE_NS      2000000ULL /* while something is in a buffer */
#define LOOK_NS        100000000ULL
#define LEAST_GRAIN_NS 20000ULL
#define MOST_GRAIN_NS  200000ULL
#define RETRY_NS       20000ULL /* when an interface takes no more for the moment */

/* A frame in a switch's memory: in as many queues as it has ports to leave by. */
struct frame {
	struct xsk_frame place;
	u32 queues;
	u32 next_free;
};

/* What stands in a queue. */
struct entry {
	struct packet packet; /* first */
	u32 frame;
	u32 next_free;
};

struct pool {
	u32 first_free; /* index + 1 */
};

struct port {
	struct xsk *xsk;
	struct entry *waiting; /* has left the buffer, and the ring was full */
	bool is_behind;        /* the interface has not taken all */
};

struct machine {
	struct soft_switch *core;
	struct xsk_memory *memory;
	struct frame *frames;
	struct entry *entries;
	struct pool free_frames, free_entries;
	u64 settle_ns, look_ns;
	struct port ports[SWITCH_PORTS];
};

struct fabric {
	struct machine *machines;
	u32 count;
	u64 grain_ns; /* turns are so far apart */
	int epoll;
};

/* Setting up */

static void *zeroed(u64 count, u64 bytes)
{
	void *memory = calloc(count, bytes);

	if (!memory)
		fail("have memory for", "a switch");
	return memory;
}

static void link_free(struct machine *machine, u32 frames, u32 entries)
{
	machine->frames = zeroed(frames, sizeof(*machine->frames));
	machine->entries = zeroed(entries, sizeof(*machine->entries));
	for (u32 i = 0; i < frames; i++)
		machine->frames[i].next_free = i + 1 < frames ? i + 2 : 0;
	for (u32 i = 0; i < entries; i++)
		machine->entries[i].next_free = i + 1 < entries ? i + 2 : 0;
	machine->free_frames.first_free = machine->free_entries.first_free = 1;
}

static void open_port(struct fabric *fabric, struct machine *machine, u32 index, const char *ifname, int map)
{
	struct port *port = &machine->ports[index];
	struct epoll_event news = {.events = EPOLLIN};

	errno = -xsk_open(&port->xsk, machine->memory, ifname, 0, XSK_COPY);
	if (errno)
		fail("open a socket on", ifname);
	xsk_refill(port->xsk);
	errno = -xsk_join(port->xsk, map, index);
	if (errno || epoll_ctl(fabric->epoll, EPOLL_CTL_ADD, xsk_fd(port->xsk), &news) < 0)
		fail("receive from", ifname);
}

/*
 * Frames that come within a quarter of the time that the longest frame takes on the fastest cable share a
 * turn: a switch that stores and forwards is late by the whole of that time.
 */
static void note_rate(struct fabric *fabric, u64 rate_bps, u32 longest_frame)
{
	u64 grain = rate_bps ? longest_frame * 8 * NS_PER_S / 4 / rate_bps : 0;

	fabric->grain_ns = grain < fabric->grain_ns ? grain : fabric->grain_ns;
	fabric->grain_ns = fabric->grain_ns < LEAST_GRAIN_NS ? LEAST_GRAIN_NS : fabric->grain_ns;
}

static void open_switch(struct fabric *fabric, const struct fabric_config *config, u32 number, u8 *counters)
{
	const struct switch_config *found = &config->switches[number];
	struct machine *machine = &fabric->machines[number];
	struct soft_switch *core = found->core;
	u32 chunks = found->chunks + core->ports * XSK_RING;

	machine->core = core;
	errno = -xsk_memory_open(&machine->memory, chunks, SEND_FRAMES, config->longest_frame);
	if (errno)
		fail("have memory for", found->name);
	link_free(machine, chunks, chunks + SPARE_PACKETS);
	core->memory_free = found->chunks;
	switch_init(core, (struct switch_counters *)counters);
	memcpy(core->count->name, found->name, sizeof(found->name));
	enter(found->namespace);
	int map = bpf_map_get_fd_by_id(found->map);
	if (map < 0)
		fail("open the map of sockets of", found->name);
	for (u32 port = 0; port < core->ports; port++) {
		const struct port_config *set = &found->ports[port];

		note_rate(fabric, set->rate_bps, config->longest_frame);
		switch_init_port(core, port, set->mac, set->rate_bps, set->burst_ns, config->weights,
				 config->longest_frame);
		open_port(fabric, machine, port, set->ifname, map);
	}
	close(map);
}

static u64 counters_bytes(const struct switch_config *found)
{
	return sizeof(struct switch_counters) + found->core->ports * sizeof(struct port_counters);
}

/* The file appears under its name when it is whole. */
static struct switch_file *map_counters(const struct fabric_config *config)
{
	char part[sizeof(config->counters) + 8];
	u64 bytes = sizeof(struct switch_file);

	for (u32 i = 0; i < config->count; i++)
		bytes += counters_bytes(&config->switches[i]);
	snprintf(part, sizeof(part), "%s.part", config->counters);
	int fd = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		fail("make", part);
	struct switch_file *file =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (file == MAP_FAILED || rename(part, config->counters) < 0)
		fail("make", config->counters);
	close(fd);
	file->mark = SWITCH_FILE_MARK;
	file->switches = config->count;
	return file;
}

static struct switch_file *open_fabric(struct fabric *fabric, const struct fabric_config *config)
{
	struct switch_file *file = map_counters(config);
	u8 *at = (u8 *)(file + 1);

	fabric->count = config->count;
	fabric->grain_ns = MOST_GRAIN_NS;
	fabric->machines = zeroed(config->count, sizeof(*fabric->machines));
	fabric->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (fabric->epoll < 0)
		fail("begin with", "epoll");
	for (u32 i = 0; i < config->count; i++) {
		open_switch(fabric, config, i, at);
		at += counters_bytes(&config->switches[i]);
	}
	return file;
}

/* Frames in */

static void give_back(struct machine *machine, u32 frame)
{
	machine->frames[frame].next_free = machine->free_frames.first_free;
	machine->free_frames.first_free = frame + 1;
}

/* One place in the queue of one port; false if there is no more room. */
static bool enqueue(struct machine *machine, u32 frame, struct packet packet, u32 egress, u64 now)
{
	struct soft_switch *core = machine->core;
	const struct xsk_frame *place = &machine->frames[frame].place;
	u32 index = machine->free_entries.first_free;

	core->memory_free = index ? xsk_memory_free(machine->memory) : 0;
	struct entry *entry = &machine->entries[index ? index - 1 : 0];
	u32 next_free = entry->next_free;

	if (index)
		entry->packet = packet;
	if (!switch_admit(core, egress, index ? &entry->packet : &packet, place->spans[0].data, place->count,
			  now))
		return false;
	entry->frame = frame;
	machine->free_entries.first_free = next_free;
	return true;
}

static void handle(struct machine *machine, u32 ingress, const struct xsk_frame *came, u64 now)
{
	struct packet packet = {.bytes = came->bytes, .ingress = (u8)ingress};
	u64 ports =
		switch_receive(machine->core, ingress, came->spans[0], came->bytes, &packet.priority, now);
	u32 index = machine->free_frames.first_free - 1;
	struct frame *frame = &machine->frames[index]; /* there is one for each chunk */

	if (!ports) {
		xsk_memory_release(machine->memory, came);
		return;
	}
	machine->free_frames.first_free = frame->next_free;
	frame->place = *came;
	frame->queues = 0;
	for (; ports; ports &= ports - 1)
		frame->queues += enqueue(machine, index, packet, (u32)__builtin_ctzll(ports), now);
	if (!frame->queues) {
		xsk_memory_release(machine->memory, came);
		give_back(machine, index);
	}
}

static u32 receive(struct machine *machine, u32 ingress, u64 now)
{
	struct xsk_frame frames[BATCH];
	u32 count = xsk_receive(machine->ports[ingress].xsk, frames, BATCH);

	for (u32 i = 0; i < count; i++)
		handle(machine, ingress, &frames[i], now);
	xsk_refill(machine->ports[ingress].xsk);
	return count;
}

/* Frames out */

static bool send_copy(struct port *port, const struct xsk_frame *place)
{
	u8 *room = xsk_reserve(port->xsk), *at = room;

	if (!room || place->bytes > xsk_room(port->xsk))
		return room != NULL;
	for (u32 i = 0; i < place->count; at += place->spans[i++].bytes)
		memcpy(at, place->spans[i].data, place->spans[i].bytes);
	xsk_commit(port->xsk, room, place->bytes);
	return true;
}

/* False while the ring is full. The last of a flooded frame's queues sends the frame itself. */
static bool send_entry(struct machine *machine, struct port *port, struct entry *entry)
{
	struct frame *frame = &machine->frames[entry->frame];
	bool is_last = frame->queues == 1;

	if (!(is_last ? xsk_forward(port->xsk, &frame->place) : send_copy(port, &frame->place)))
		return false;
	frame->queues--;
	if (is_last)
		give_back(machine, entry->frame);
	entry->next_free = machine->free_entries.first_free;
	machine->free_entries.first_free = (u32)(entry - machine->entries) + 1;
	return true;
}

/* Its own PFC frames go before all that waits. */
static u32 send_pauses(struct machine *machine, u32 egress, u64 now)
{
	struct port *port = &machine->ports[egress];
	struct pfc frame;
	u32 count = 0;

	while (pfc_refresh_ns(&machine->core->port[egress].pfc) <= now) {
		u8 *room = xsk_reserve(port->xsk);

		if (!room || !switch_pause(machine->core, egress, &frame, now))
			break;
		struct room space = {room, xsk_room(port->xsk)};

		pfc_emit(&space, &frame);
		xsk_commit(port->xsk, room, ETHERNET_BYTES + PFC_BYTES);
		count++;
	}
	return count;
}

static u32 send(struct machine *machine, u32 egress, u64 now)
{
	struct port *port = &machine->ports[egress];
	u32 count = send_pauses(machine, egress, now);

	for (u32 taken = 0; taken < BATCH; taken++) {
		struct entry *entry = port->waiting;

		entry = entry ? entry : (struct entry *)switch_take(machine->core, egress, now);
		port->waiting = entry;
		if (!entry || !send_entry(machine, port, entry))
			break;
		port->waiting = NULL;
		count++;
	}
	if (count || port->is_behind)
		port->is_behind = xsk_kick(port->xsk) != 0;
	return count;
}

/* All day long */

/* Frames that the kernel had no place for have no priority: nobody has seen them. */
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
	return machine->settle_ns < machine->look_ns ? machine->settle_ns : machine->look_ns;
}

static u32 turn(struct machine *machine)
{
	u32 ports = machine->core->ports, count = 0;
	u64 now = now_ns();

	for (u32 port = 0; port < ports; port++)
		count += receive(machine, port, now);
	for (u32 port = 0; port < ports; port++)
		count += send(machine, port, now);
	return count;
}

static u64 next_ns(const struct machine *machine, u64 now)
{
	u64 next = PFC_NEVER;

	for (u32 port = 0; port < machine->core->ports; port++) {
		const struct port *found = &machine->ports[port];
		u64 due = found->is_behind || found->waiting ? now + RETRY_NS
							     : switch_next_ns(machine->core, port, now);

		next = due < next ? due : next;
	}
	return next;
}

/* Frames that come one by one are handled at once; of many, the later ones wait for each other. */
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
