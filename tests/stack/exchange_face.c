/* Functions of ports/exchange.h that have no address of their own. */
#include "ports/exchange.h"

void note_wait(struct exchange *self, bool has_come, u64 took_ns);
u64 next_look_ns(const struct exchange *self);

void note_wait(struct exchange *self, bool has_come, u64 took_ns)
{
	exchange_note(self, has_come, took_ns);
}

u64 next_look_ns(const struct exchange *self)
{
	return exchange_look_ns(self);
}
