/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles policies that are received over the wire. */
#ifndef ENGINE_EGRESS_RECEIVED_H
#define ENGINE_EGRESS_RECEIVED_H

#include "engine/egress/wire.h"
#include "lib/ipc/channel.h"
#include "domain/policy/egress.h"

/* Reads the policy of a POLICY message, whose descriptors are JSON files. */
int received_policy(const struct wire_box *m, const struct ipc_fds *fds,
                    struct egress_snapshot **ret, struct err *e);

/* Reads the policy of a TEXTS message. Error messages begin with the file's name, or with
 * "--allow". */
int received_texts(const struct wire_texts *m, const struct ipc_fds *fds,
                   struct egress_snapshot **ret, struct err *e);

#endif
