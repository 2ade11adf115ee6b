/* SPDX-License-Identifier: Apache-2.0 */
/* Points at which a test can make this process die, as if by SIGKILL from outside, hang, or be late.
 *
 *     fault_point("store.commit.before");
 *
 * SANDBOXER_DIE_AT="NAME:COUNT[,NAME:COUNT...]" kills the process when it reaches point NAME for
 * the COUNT-th time, counted from 1; SANDBOXER_STOP_AT stops it there, until it gets SIGCONT;
 * SANDBOXER_DELAY_AT makes the calling thread sleep for a second. The variables are read once, at
 * the first point. Without test hooks a point compiles to nothing. Any thread. */
#ifndef BASE_FAULT_POINT_H
#define BASE_FAULT_POINT_H

#if SANDBOXER_TEST_HOOKS
void fault_point(const char *name);
#else
#define fault_point(name) ((void)0)
#endif

#endif
