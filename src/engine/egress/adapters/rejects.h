/* SPDX-License-Identifier: Apache-2.0 */
/* Audits attempts to bypass the egress plane: the boundary's rules reject such packets and log them
 * (lib/ipc/listeners.h); this module turns the log into audit events. */
#ifndef ENGINE_EGRESS_ADAPTERS_REJECTS_H
#define ENGINE_EGRESS_ADAPTERS_REJECTS_H

#include "engine/egress/egress.h"

struct rejects;

/* Reads the box's LISTENER_REJECTS, if there is one. Freed with the box, before its listeners and
 * its audit. */
int rejects_new(struct egress_box *b, struct rejects **ret, struct err *e);
void rejects_free(struct rejects *r); /* NULL is fine */

#endif
