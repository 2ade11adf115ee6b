/* Attempts to go round the egress plane: the boundary's rules refuse such packets and log them
 * (ipc/listeners.h), and this makes audit events of the log. */
#ifndef EGRESS_ADAPTERS_REJECTS_H
#define EGRESS_ADAPTERS_REJECTS_H

#include "egress/egress.h"

struct rejects;

/* Reads the box's LISTENER_REJECTS; one that is not there is fine. Freed with the box, before its
 * listeners and its audit. */
int rejects_new(struct egress_box *b, struct rejects **ret, struct err *e);
void rejects_free(struct rejects *r); /* NULL is fine */

#endif
