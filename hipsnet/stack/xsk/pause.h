/* SPDX-License-Identifier: Apache-2.0 */
/* Sends a port's PFC frames through its socket. */
#pragma once

#include <string.h>

#include "cable/pfc.h"
#include "xsk/xsk.h"

/* Queues the PFC frame that a port has to send now; false if there is none, or the transmit ring is full. */
static inline bool xsk_send_pause(struct xsk *xsk, struct pfc_port *port, const u8 *mac, u64 now)
{
	u8 *frame = xsk_reserve(xsk);
	struct pfc pause;

	if (!frame || !pfc_take(port, &pause, now))
		return false;
	struct room room = {frame, xsk_room(xsk)};

	memcpy(pause.from, mac, MAC_BYTES);
	pfc_emit(&room, &pause);
	xsk_commit(xsk, frame, ETHERNET_BYTES + PFC_BYTES);
	return true;
}
