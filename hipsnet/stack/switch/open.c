// SPDX-License-Identifier: Apache-2.0
/* Sets the switches up: memory, sockets, counters; see switch/machine.h. */
#define _GNU_SOURCE
#include <bpf/bpf.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "programs/background.h"
#include "switch/machine.h"

#define LEAST_GRAIN_NS 20000ULL
#define MOST_GRAIN_NS  200000ULL
#define LATE_NS        50000000ULL /* the longest scheduling delay without a loss */
#define LEAST_AHEAD    256u

static void *zeroed(u64 count, u64 bytes)
{
	void *memory = calloc(count, bytes);

	if (!memory)
		fail("allocate memory for", "a switch");
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

/* Chunks for the frames that a port receives while the process is descheduled. */
static u32 chunks_ahead(const struct port_config *set, u32 chunk_bytes)
{
	u64 needed = set->rate_bps ? set->rate_bps / 8 * LATE_NS / NS_PER_S / chunk_bytes : XSK_RING;
	u64 bounded = needed < LEAST_AHEAD ? LEAST_AHEAD : needed;

	return bounded > XSK_RING ? XSK_RING : (u32)bounded;
}

static void open_port(struct fabric *fabric, struct machine *machine, u32 index,
		      const struct port_config *set, int map)
{
	struct port *port = &machine->ports[index];
	struct epoll_event news = {.events = EPOLLIN};

	errno = -xsk_open(&port->xsk, machine->memory, set->ifname, 0, XSK_COPY);
	if (errno)
		fail("open a socket on", set->ifname);
	machine->core->port[index].ahead = chunks_ahead(set, machine->core->chunk_bytes);
	xsk_limit_fill(port->xsk, machine->core->port[index].ahead);
	xsk_refill(port->xsk);
	errno = -xsk_join(port->xsk, map, index);
	if (errno || epoll_ctl(fabric->epoll, EPOLL_CTL_ADD, xsk_fd(port->xsk), &news) < 0)
		fail("receive from", set->ifname);
}

/*
 * Frames that arrive within a quarter of the transmission time of the longest frame on the fastest cable
 * share a turn. That is little: a store-and-forward switch delays a frame by the whole of that time.
 */
static void note_rate(struct fabric *fabric, u64 rate_bps, u32 longest_frame)
{
	u64 grain = rate_bps ? longest_frame * 8 * NS_PER_S / 4 / rate_bps : 0;

	fabric->grain_ns = grain < fabric->grain_ns ? grain : fabric->grain_ns;
	fabric->grain_ns = fabric->grain_ns < LEAST_GRAIN_NS ? LEAST_GRAIN_NS : fabric->grain_ns;
}

static void open_switch(struct fabric *fabric, const struct fabric_config *config, u32 number,
			struct switch_events *events, u8 *counters)
{
	const struct switch_config *found = &config->switches[number];
	struct machine *machine = &fabric->machines[number];
	struct soft_switch *core = found->core;
	u32 chunks = found->chunks;

	for (u32 port = 0; port < core->ports; port++)
		chunks += chunks_ahead(&found->ports[port], core->chunk_bytes);
	machine->core = core;
	errno = -xsk_memory_open(&machine->memory, chunks, SEND_FRAMES,
				 switch_frame_bytes(config->longest_frame));
	if (errno)
		fail("allocate memory for", found->name);
	link_free(machine, chunks, chunks + SPARE_PACKETS);
	core->memory_free = found->chunks;
	core->events = events;
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
		open_port(fabric, machine, port, set, map);
	}
	close(map);
}

static u64 counters_bytes(const struct switch_config *found)
{
	return sizeof(struct switch_counters) + found->core->ports * sizeof(struct port_counters);
}

static void path_of_part(char *part, u32 bytes, const struct fabric_config *config)
{
	snprintf(part, bytes, "%s.part", config->counters);
}

static struct switch_file *map_counters(const struct fabric_config *config)
{
	char part[sizeof(config->counters) + 8];
	u64 bytes = sizeof(struct switch_file);

	for (u32 i = 0; i < config->count; i++)
		bytes += counters_bytes(&config->switches[i]);
	path_of_part(part, sizeof(part), config);
	int fd = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		fail("make", part);
	struct switch_file *file =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (file == MAP_FAILED)
		fail("make", config->counters);
	close(fd);
	file->mark = SWITCH_FILE_MARK;
	file->layout = switch_layout();
	file->switches = config->count;
	return file;
}

/* The file gets its name when it is complete. */
static void publish_counters(const struct fabric_config *config)
{
	char part[sizeof(config->counters) + 8];

	path_of_part(part, sizeof(part), config);
	if (rename(part, config->counters) < 0)
		fail("make", config->counters);
}

struct switch_file *open_fabric(struct fabric *fabric, const struct fabric_config *config)
{
	struct switch_file *file = map_counters(config);
	u8 *at = (u8 *)(file + 1);

	fabric->count = config->count;
	fabric->grain_ns = MOST_GRAIN_NS;
	fabric->machines = zeroed(config->count, sizeof(*fabric->machines));
	fabric->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (fabric->epoll < 0)
		fail("create", "an epoll descriptor");
	for (u32 i = 0; i < config->count; i++) {
		open_switch(fabric, config, i, &file->events, at);
		at += counters_bytes(&config->switches[i]);
	}
	publish_counters(config);
	return file;
}
