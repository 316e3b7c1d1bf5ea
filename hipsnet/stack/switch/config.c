// SPDX-License-Identifier: Apache-2.0
/* See switch/config.h. */
#define _GNU_SOURCE
#include "switch/config.h"

#include "programs/background.h"

enum { MOST_WORDS = 8 + 2 * ROUTER_WAYS, MOST_ROUTES = 16384 };

struct reader {
	struct fabric_config *config;
	struct switch_config *last; /* NULL before the first switch */
	const char *path;
	u32 line;
	u32 count; /* of words */
	char *words[MOST_WORDS];
};

static void __attribute__((noreturn)) refuse(const struct reader *reader, const char *what)
{
	fprintf(stderr, "%s:%u: %s\n", reader->path, reader->line, what);
	exit(2);
}

static const char *word(const struct reader *reader, u32 index)
{
	if (index >= reader->count)
		refuse(reader, "too few values");
	return reader->words[index];
}

static u64 number(const struct reader *reader, u32 index, u64 most)
{
	const char *text = word(reader, index);
	char *end;

	errno = 0;
	u64 value = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text == '-' || value > most)
		refuse(reader, "not a number, or out of range");
	return value;
}

static double fraction(const struct reader *reader, u32 index)
{
	const char *text = word(reader, index);
	char *end;
	double value = strtod(text, &end);

	if (*end || end == text || !(value >= 0))
		refuse(reader, "not a fraction");
	return value;
}

static void mac(const struct reader *reader, u32 index, u8 *mac)
{
	static const u8 zero[MAC_BYTES];
	char rest;

	if (sscanf(word(reader, index), "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx%c", &mac[0], &mac[1], &mac[2], &mac[3],
		   &mac[4], &mac[5], &rest) != MAC_BYTES)
		refuse(reader, "not a MAC address");
	if (mac[0] & 1 || memcmp(mac, zero, MAC_BYTES) == 0)
		refuse(reader, "not the MAC address of an interface");
}

static void copy(const struct reader *reader, u32 index, char *to, size_t bytes)
{
	const char *text = word(reader, index);

	if (strlen(text) >= bytes)
		refuse(reader, "a name is too long");
	memcpy(to, text, strlen(text) + 1);
}

static struct soft_switch *core(const struct reader *reader)
{
	if (!reader->last)
		refuse(reader, "requires a `switch` line above");
	return reader->last->core;
}

static u8 port_number(const struct reader *reader, u32 index)
{
	u32 ports = core(reader)->ports;

	if (!ports)
		refuse(reader, "requires a `port` line above");
	return (u8)number(reader, index, ports - 1);
}

/* The keywords */

static void read_counters(struct reader *reader)
{
	copy(reader, 1, reader->config->counters, sizeof(reader->config->counters));
}

static void read_frame(struct reader *reader)
{
	reader->config->longest_frame = (u32)number(reader, 1, 1 << 16);
}

static void read_weights(struct reader *reader)
{
	for (u32 priority = 0; priority < PRIORITIES; priority++) {
		reader->config->weights[priority] = (u32)number(reader, 1 + priority, 1000);
		if (!reader->config->weights[priority] != !reader->config->weights[0])
			refuse(reader, "either all weights are 0, or none is");
	}
}

static void read_dscp(struct reader *reader)
{
	u64 dscp = number(reader, 1, DSCP_COUNT - 1);

	reader->config->priority_of[dscp] = (u8)number(reader, 2, PRIORITIES - 1);
}

static void read_marking(struct reader *reader)
{
	struct marking *marking = &reader->config->marking;

	reader->config->marks |= (u8)(1u << number(reader, 1, PRIORITIES - 1));
	marking->kmin = number(reader, 2, 1ULL << 40);
	marking->kmax = number(reader, 3, 1ULL << 40);
	marking->pmax = fraction(reader, 4);
}

static void read_watchdog(struct reader *reader)
{
	static const char *const actions[] = {"drop", "forward", "alert"};
	struct watchdog *watchdog = &reader->config->watchdog;

	watchdog->detect_ns = number(reader, 1, 1ULL << 50);
	watchdog->restore_ns = number(reader, 2, 1ULL << 50);
	for (u32 i = 0; i < 3; i++)
		if (strcmp(word(reader, 3), actions[i]) == 0)
			watchdog->action = (enum watchdog_action)(WATCHDOG_DROP + i);
	if (!watchdog->action || !watchdog->detect_ns || !watchdog->restore_ns)
		refuse(reader, "a watchdog requires an action and two times");
}

static void read_class(struct reader *reader)
{
	struct buffer_class *class = &reader->config->classes[number(reader, 1, PRIORITIES - 1)];
	const u64 most = 1ULL << 40;

	class->lossless = number(reader, 2, 1);
	class->reserved = number(reader, 3, most);
	class->headroom = number(reader, 4, most);
	class->xoff = number(reader, 5, most);
	class->xon = number(reader, 6, most);
	class->alpha = fraction(reader, 7);
	class->hysteresis = number(reader, 8, most);
}

static struct soft_switch *new_core(const struct fabric_config *config, u32 number)
{
	struct soft_switch *core = calloc(1, sizeof(*core));

	if (!core)
		fail("allocate memory for", "a switch");
	memcpy(core->buffer.classes, config->classes, sizeof(config->classes));
	memcpy(core->priority_of, config->priority_of, sizeof(config->priority_of));
	core->watchdog = config->watchdog;
	core->number = number;
	core->marking = config->marking;
	core->marking.random = number + 1;
	core->marks = config->marks;
	core->router.seed = number * 0x9e3779b9u;
	core->longest_frame = config->longest_frame;
	core->chunk_bytes = 1024; /* assumed use of a chunk: less for short frames, more for long ones */
	return core;
}

static void read_switch(struct reader *reader)
{
	struct fabric_config *config = reader->config;

	if (config->count == CONFIG_SWITCHES)
		refuse(reader, "too many switches");
	config->switches = realloc(config->switches, (config->count + 1) * sizeof(*config->switches));
	if (!config->switches)
		fail("allocate memory for", "a switch");
	reader->last = &config->switches[config->count];
	*reader->last = (struct switch_config){.core = new_core(config, config->count)};
	config->count++;
	copy(reader, 1, reader->last->name, sizeof(reader->last->name));
	copy(reader, 2, reader->last->namespace, sizeof(reader->last->namespace));
	reader->last->map = (u32)number(reader, 3, ~0u);
	reader->last->core->routes = strcmp(word(reader, 4), "l3") == 0;
	reader->last->core->buffer.shared_size = number(reader, 5, 1ULL << 40);
	reader->last->chunks = (u32)number(reader, 6, 1 << 20);
	reader->last->core->memory_owed = number(reader, 7, 1 << 20);
}

static void read_port(struct reader *reader)
{
	struct soft_switch *self = core(reader);
	struct port_config *port = &reader->last->ports[self->ports];

	if (self->ports == SWITCH_PORTS)
		refuse(reader, "too many ports");
	copy(reader, 1, port->ifname, sizeof(port->ifname));
	mac(reader, 3, port->mac);
	port->rate_bps = number(reader, 4, 1ULL << 50);
	port->burst_ns = number(reader, 5, 1ULL << 50);
	self->ports++;
}

static void read_mac(struct reader *reader)
{
	u8 found[MAC_BYTES];

	mac(reader, 1, found);
	if (!bridge_fix(&core(reader)->bridge, found, port_number(reader, 2)))
		refuse(reader, "too many MACs");
}

static void read_route(struct reader *reader)
{
	struct router *router = &core(reader)->router;

	if (router->count == MOST_ROUTES)
		refuse(reader, "too many routes");
	/* The array doubles when its length is a power of two. */
	if (!(router->count & (router->count - 1)))
		router->routes = realloc(router->routes, 2 * (router->count + 1) * sizeof(*router->routes));
	if (!router->routes)
		fail("allocate memory for", "routes");
	struct router_route *route = &router->routes[router->count++];

	*route = (struct router_route){.prefix = (u32)number(reader, 1, ~0u),
				       .mask = (u32)number(reader, 2, ~0u)};
	for (u32 at = 3; at < reader->count; at += 2, route->count++) {
		if (route->count == ROUTER_WAYS)
			refuse(reader, "too many next hops");
		route->hops[route->count].port = port_number(reader, at);
		mac(reader, at + 1, route->hops[route->count].mac);
	}
	if (!route->count)
		refuse(reader, "a route requires a next hop");
}

static const struct {
	const char *word;
	void (*read)(struct reader *reader);
} READERS[] = {
	{"counters", read_counters}, {"frame", read_frame}, {"weights", read_weights},   {"dscp", read_dscp},
	{"marking", read_marking},   {"class", read_class}, {"switch", read_switch},     {"port", read_port},
	{"mac", read_mac},           {"route", read_route}, {"watchdog", read_watchdog},
};

static void read_line(struct reader *reader, char *line)
{
	char *rest = line;

	reader->count = 0;
	for (char *found; (found = strsep(&rest, " \n"));)
		if (*found) {
			if (reader->count == MOST_WORDS)
				refuse(reader, "too many values");
			reader->words[reader->count++] = found;
		}
	for (size_t i = 0; reader->count && i < sizeof(READERS) / sizeof(*READERS); i++)
		if (strcmp(READERS[i].word, reader->words[0]) == 0) {
			READERS[i].read(reader);
			return;
		}
	if (reader->count)
		refuse(reader, "unknown keyword");
}

struct fabric_config *read_config(const char *path)
{
	FILE *file = fopen(path, "re");
	struct reader reader = {.path = path, .config = calloc(1, sizeof(*reader.config))};
	char *line = NULL;
	size_t room = 0;

	if (!file || !reader.config)
		fail("read", path);
	while (getline(&line, &room, file) >= 0) {
		reader.line++;
		read_line(&reader, line);
	}
	free(line);
	fclose(file);
	if (!reader.config->count || !reader.config->longest_frame)
		refuse(&reader, "the file has no `switch` or no `frame` line");
	return reader.config;
}
