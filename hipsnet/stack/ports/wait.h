/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a stack waits. While little comes, for the next frame: it is the first to know. While frames stream in,
 * by the clock: who is woken for each frame makes its sender pay for it, and sees no frame sooner that
 * matters. Where frames answer frames at once, to and fro, it looks for the next one before it sleeps: to
 * fall asleep and be woken takes longer than the answer. A look is short, and after one in vain there is none
 * until several waits in a row were short.
 */
#pragma once

#include "ports/port.h"

/* So many frames have come in now, and so many messages were whole by them. */
void wait_note(struct stack *stack, u32 frames, u32 completions, u64 now_ns);

/* Sleeps until a frame comes, something is due, or the watched descriptor is readable; -errno for a signal.
 */
int wait_until(struct stack *stack, u64 until_ns, u64 now_ns);

/* Sleeps until something is due, at most for a moment: a frame that arrives does not end it. */
void wait_briefly(u64 until_ns, u64 now_ns);
