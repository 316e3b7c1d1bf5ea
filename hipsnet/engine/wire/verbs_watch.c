// SPDX-License-Identifier: Apache-2.0
/* The ends of connections: a peer that closes, a lost address, a path that acknowledges nothing. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/core/core.h"
#include "engine/wire/verbs_connection.h"

#define FAREWELL 12 /* bytes (qp_bootstrap.py): magic, number of pieces that had arrived */

bool verbs_awaits_answer(const struct verbs_connection *self)
{
	return self->is_probing || self->flow.posted != self->flow.acknowledged;
}

void verbs_end(struct verbs_wire *wire, u32 connection, struct core *core, u32 reason, u64 first, u64 second,
	       const char *words, u64 arrived)
{
	struct verbs_connection *self = &wire->connection[connection];
	char why[VERBS_WORDS] = "";

	if (!self->is_open)
		return;
	self->is_open = false;
	if (words)
		strncpy(why, words, sizeof(why) - 1);
	epoll_ctl(wire->epoll, EPOLL_CTL_DEL, self->socket, NULL);
	wire->owner.end(wire->owner.context, connection, reason, first, second, why);
	why[sizeof(why) - 1] = 0;
	verbs_acknowledge(wire, connection, core, arrived);
	self->first = self->end;
	core_on_closed(core, connection, why);
}

void verbs_hear(struct verbs_wire *wire, u32 connection, struct core *core)
{
	struct verbs_connection *self = &wire->connection[connection];
	u8 words[FAREWELL];
	u64 arrived = 0;
	ssize_t length;

	self->has_news = false;
	if (!self->is_open)
		return;
	length = recv(self->socket, words, sizeof(words), MSG_DONTWAIT);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length == FAREWELL && !memcmp(words, "bye.", 4))
		arrived = verbs_get(words + 4, 8);
	verbs_end(wire, connection, core, VERBS_END_WORDS, 0, 0,
		  length < 0 ? strerror(errno) : "it closed the connection", arrived);
}

/* Whether the device is there and has the GID of the set-up; sysfs has a line of text for each GID. */
static bool has_endpoint(const struct verbs_connection *self)
{
	char text[64] = "";
	size_t length = strlen(self->gid);
	int file = open(self->gid_file, O_RDONLY | O_CLOEXEC);
	bool is_there = file >= 0 && read(file, text, sizeof(text) - 1) >= (ssize_t)length;

	if (file >= 0)
		close(file);
	return is_there && !memcmp(text, self->gid, length);
}

/*
 * The device should have failed unacknowledged requests after all its retries. rxe of Linux 6.1 does not
 * always: with a retry count of 7 it repeats without end, and a request that it could not send is reported
 * only after those before it, for whose acknowledgement it no longer waits. A connection with nothing in
 * flight sends a probe: a sender without credit would never notice a dead path.
 */
void verbs_look(struct verbs_wire *wire, struct core *core, u64 now_ns)
{
	if (now_ns < wire->next_look_ns)
		return;
	wire->next_look_ns = now_ns + VERBS_LOOK_NS;
	for (u32 i = 0; i < wire->connections; i++) {
		struct verbs_connection *self = &wire->connection[i];

		if (!self->is_open)
			continue;
		if (!has_endpoint(self))
			verbs_end(wire, i, core, VERBS_END_ENDPOINT, 0, 0, NULL, 0);
		else if (!verbs_awaits_answer(self))
			verbs_probe(wire, i, core, now_ns);
		else if (now_ns - self->answered_ns >= wire->silent_ns)
			verbs_end(wire, i, core, VERBS_END_SILENT, now_ns - self->answered_ns, 0, NULL, 0);
	}
}
