/* SPDX-License-Identifier: Apache-2.0 */
/* OOM kills and limits of a sandbox: stored in its record and reported with the ends of its
 * processes. */
#ifndef CONTROL_SANDBOX_OOM_H
#define CONTROL_SANDBOX_OOM_H

#include "control/control.h"

/* The box has counted this many OOM kills since it was provisioned. */
void sandbox_note_oom(struct sandbox *s, uint32_t kills);

/* The end of a process or file operation, with the limits that it ran under. */
struct backend_end sandbox_end(const struct sandbox *s, const struct backend_end *end);

#endif
