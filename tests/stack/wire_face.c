/* The functions of wire.h, which are inline, for cffi. */
#include "../../hipsnet/stack/wire.h"

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
		struct room room = {at, bytes};                                                              \
		return name##_emit(&room, value);                                                            \
	}

FACE(ethernet)
FACE(vlan)
FACE(ipv4)
FACE(udp)
FACE(bth)
FACE(reth)
FACE(aeth)
FACE(pfc)
