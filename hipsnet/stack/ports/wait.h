/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a stack waits. With little traffic: in ppoll(), for the next frame. While frames stream in: by the
 * clock, because a wake-up for each frame costs its sender more than the frame itself. While frames answer
 * each other immediately, it polls for a moment before it sleeps: see ports/busy_poll.h.
 */
#pragma once

#include <poll.h>

#include "ports/port.h"

/* Records that `frames` have arrived, and completed `completions` messages. */
void wait_note(struct stack *stack, u32 frames, u32 completions, u64 now_ns);

/* Sleeps until a frame arrives, one of `count` other descriptors is ready, or the time has come; -errno. */
int wait_until(struct stack *stack, struct pollfd *others, u32 count, u64 until_ns, u64 now_ns);
