// SPDX-License-Identifier: Apache-2.0
/* Data for calls that this rank has not submitted yet: kept on arrival, processed on submission. */
#include "engine/core/core_internal.h"

void keep_ready(struct core *core, u32 connection, const struct message_ready *ready)
{
	struct early_ready *kept = core->connections[connection].early_readies;

	for (u32 i = 0; i < CORE_WINDOW; i++) {
		if (kept[i].is_used)
			continue;
		kept[i] = (struct early_ready){true, *ready};
		return;
	}
	protocol_error(core, connection, "it announced more calls than the window has");
}

void keep_write(struct core *core, u32 connection, u32 slot, u32 tag, u32 number)
{
	struct early_write *kept = &core->connections[connection].early_writes[slot];

	if (kept->is_used) {
		protocol_error(core, connection, "it wrote into a slot that was not free");
		return;
	}
	*kept = (struct early_write){true, tag, number};
}

static void take_early_readies(struct core *core, struct call *call, u32 connection)
{
	struct early_ready *kept = core->connections[connection].early_readies;

	for (u32 i = 0; i < CORE_WINDOW && !core->has_failed; i++) {
		if (!kept[i].is_used || kept[i].ready.sequence != call->sequence)
			continue;
		kept[i].is_used = false;
		on_ready(core, call, connection, &kept[i].ready);
	}
}

/* Early segments arrived in the order of their numbers, not of their slots. */
static void take_early_writes(struct core *core, struct call *call, u32 connection)
{
	struct early_write *kept = core->connections[connection].early_writes;
	bool is_found = true;

	while (is_found && !core->has_failed) {
		const struct lane *lane = &call->lanes[connection];

		is_found = false;
		for (u32 slot = 0; slot < core->config.slots; slot++) {
			if (!kept[slot].is_used || kept[slot].tag != lane->tag % TAGS ||
			    kept[slot].number != lane->received)
				continue;
			kept[slot].is_used = false;
			is_found = true;
			arrive(core, call, connection, kept[slot].number, (struct held){PLACE_SLOT, slot});
			break;
		}
	}
}

static void take_early_messages(struct core *core, struct call *call, u32 connection)
{
	struct eager_slot *kept = core->connections[connection].eager;
	bool is_found = true;

	while (is_found && !core->has_failed) {
		is_found = false;
		for (u32 slot = 0; slot < core->config.eager_slots; slot++) {
			if (!kept[slot].is_used || !kept[slot].is_early ||
			    kept[slot].sequence != call->sequence)
				continue;
			if (!agrees(core, call, connection, &kept[slot].signature))
				return;
			if (kept[slot].number != call->lanes[connection].received)
				continue;
			if (!fits(core, call, connection, kept[slot].number, kept[slot].bytes))
				return;
			kept[slot].is_early = false;
			is_found = true;
			arrive(core, call, connection, kept[slot].number, (struct held){PLACE_EAGER, slot});
			break;
		}
	}
}

/* Processes the data that arrived for a call before its submission. */
void take_early(struct core *core, struct call *call)
{
	for (u32 i = 0; i < core->config.connections && !core->has_failed; i++) {
		take_early_messages(core, call, i);
		if (call->is_eager || !call->lanes[i].is_used)
			continue;
		take_early_readies(core, call, i);
		take_early_writes(core, call, i);
	}
}
