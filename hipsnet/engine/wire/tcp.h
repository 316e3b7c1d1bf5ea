/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wire over connected TCP sockets, one for each neighbour and port.
 *
 * A frame is a header of 24 bytes and a payload: writes are sent from the caller's memory and received
 * directly into their region; messages are copied into a ring when they are posted. One sendmsg() sends the
 * waiting frames of a connection; one recvmsg() receives the rest of a write and the headers behind it.
 *
 * cffi parses this file: declarations and numeric macros only.
 */
#pragma once

#include <stdbool.h>

#include "wire/types.h"

#define TCP_WIRE_REGIONS 4096
#define TCP_WIRE_RING    0x80000 /* bytes of waiting messages, for each connection */

struct tcp_wire;
struct wire_operations;

/* The sockets are non-blocking; the wire takes ownership. NULL if memory or descriptors are short. */
struct tcp_wire *tcp_wire_open(const int *sockets, u32 connections, u32 message_max);

/* Closes the sockets. */
void tcp_wire_close(struct tcp_wire *wire);

const struct wire_operations *tcp_wire_operations(void);

u64 tcp_wire_calls(const struct tcp_wire *wire); /* system calls so far, for the benchmark */
