/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that a sandbox leaves: when it is removed, and for how long it is kept. Its programs,
 * control groups, mounts and network are its backend's, which removes them in teardown(). */
#ifndef CONTROL_SANDBOX_REMAINS_H
#define CONTROL_SANDBOX_REMAINS_H

#include <stdint.h>

struct config;
struct control;
struct sandbox;

/* The box is gone, and its end is not on record yet. Also for a box of the pool. */
void remains_clear(struct control *c, const char *box);
/* The sandbox is destroyed on record. */
void remains_drop(struct sandbox *s);
/* After a start: removes the remains of sandboxes that the daemon does not know. */
void remains_sweep(struct control *c);
/* Every five minutes: removes remains whose retention time has passed. */
void remains_expire(struct control *c);
/* How long the record of a destroyed sandbox is kept, since remains are read through it. */
int64_t remains_retention(const struct config *c);

#endif
