// SPDX-License-Identifier: Apache-2.0
/* The functions of wire/wire.h, which are inline, and the reading of whole packets, for cffi. */
#include "roce/packet.h"

#define FACE(name)                                                                                           \
	bool face_##name##_parse(const u8 *at, u32 bytes, struct name *value);                               \
	bool face_##name##_parse(const u8 *at, u32 bytes, struct name *value)                                \
	{                                                                                                    \
		struct view view = {at, bytes};                                                              \
		return name##_parse(&view, value);                                                           \
	}                                                                                                    \
	bool face_##name##_emit(u8 *at, u32 bytes, const struct name *value);                                \
	bool face_##name##_emit(u8 *at, u32 bytes, const struct name *value)                                 \
	{                                                                                                    \
		struct room out = {at, bytes};                                                               \
		return name##_emit(&out, value);                                                             \
	}

FACE(ethernet)
FACE(vlan)
FACE(ipv4)
FACE(udp)
FACE(bth)
FACE(reth)
FACE(aeth)
FACE(pfc)

u32 face_packet(u8 *frame, u32 bytes, struct packet *value);

/* DROP_COUNT, or why the packet is not taken. */
u32 face_packet(u8 *frame, u32 bytes, struct packet *value)
{
	struct span span = {frame, bytes};
	u32 drop = packet_parse(&span, 1, value);

	return drop == DROP_COUNT && !packet_icrc_holds(&span, 1, value) ? DROP_icrc : drop;
}
