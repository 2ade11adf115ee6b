/* Policies that come over the wire, compiled. */
#ifndef EGRESS_RECEIVED_H
#define EGRESS_RECEIVED_H

#include "egress/wire.h"
#include "ipc/channel.h"
#include "policy/egress.h"

/* Of POLICY: the one descriptor is a file of JSON. */
int received_policy(const struct wire_box *m, const struct ipc_fds *fds,
                    struct egress_snapshot **ret, struct err *e);

/* Of TEXTS. Messages begin with the file's name, or with "--allow". */
int received_texts(const struct wire_texts *m, const struct ipc_fds *fds,
                   struct egress_snapshot **ret, struct err *e);

#endif
