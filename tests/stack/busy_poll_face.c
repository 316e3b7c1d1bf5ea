// SPDX-License-Identifier: Apache-2.0
/* Functions of ports/busy_poll.h that have no address of their own. */
#include "ports/busy_poll.h"

void note_wait(struct busy_poll *self, bool has_come, u64 took_ns);
u64 next_look_ns(const struct busy_poll *self);

void note_wait(struct busy_poll *self, bool has_come, u64 took_ns)
{
	busy_poll_note(self, has_come, took_ns);
}

u64 next_look_ns(const struct busy_poll *self)
{
	return busy_poll_ns(self);
}
