// SPDX-License-Identifier: Apache-2.0
#include "engine/wire/verbs_flow.h"

void verbs_flow_begin(struct verbs_flow *flow, u32 window, u32 sends)
{
	*flow = (struct verbs_flow){.window = window, .sends = sends, .granted = window};
}

bool verbs_flow_may_send(const struct verbs_flow *flow, bool is_credit)
{
	return flow->posted - flow->acknowledged < flow->sends && (is_credit || flow->paid < flow->granted);
}

u64 verbs_flow_send(struct verbs_flow *flow, bool is_credit)
{
	flow->paid += !is_credit;
	return flow->posted++;
}

bool verbs_flow_grant(struct verbs_flow *flow, u64 posted_again)
{
	if (posted_again > flow->paid || posted_again + flow->window < flow->granted)
		return false;
	flow->granted = posted_again + flow->window;
	return true;
}

bool verbs_flow_owes_credit(const struct verbs_flow *flow)
{
	return flow->posted_again - flow->credited >= flow->window / 2;
}

u64 verbs_flow_take_credit(struct verbs_flow *flow)
{
	return flow->credited = flow->posted_again;
}
