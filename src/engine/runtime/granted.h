/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the host that a client granted to a sandbox, as the supervisor passes them to a launcher
 * through a control plane that neither of them trusts.
 *
 * The supervisor opens them with the client's rights and queues one packet on a socket
 * (lib/ipc/credentials.h). The control plane sends that socket with the plan (PLAN_GRANTED). The
 * kernel verifies that the packet is the supervisor's: the launcher's parent, with the launcher's
 * user. The packet names the sandbox, so it is of no use for another one. */
#ifndef ENGINE_RUNTIME_GRANTED_H
#define ENGINE_RUNTIME_GRANTED_H

#include "engine/runtime/plan.h"
#include "lib/ipc/handover.h"

enum { GRANTED_MAX = HANDOVER_MOUNTS_MAX };

struct granted_file {
    char target[PLAN_TARGET_MAX];
    uint32_t writable;
    uint32_t is_dir; /* so that the launcher need not ask a file system that may hang */
};

struct granted {
    char id[ID_MAX];   /* of the sandbox */
    uint32_t uid, gid; /* of the client: the only ids of the files that exist inside */
    struct granted_file file[GRANTED_MAX];
    int fd[GRANTED_MAX]; /* owned */
    uint32_t n;
};

void granted_done(struct granted *g);

/* The supervisor's side: *ret is the socket with the packet. */
int granted_pass(const struct granted *g, int *ret, struct err *e);

/* The launcher's side. `supervisor` is the process that must have sent the packet; 0: any. The
 * packet stays queued, for the next launcher if this one dies. -ERR_DENIED for other packets. */
int granted_receive(int sock, pid_t supervisor, struct granted *ret, struct err *e);

/* Checks that these are exactly the plan's granted mounts, each writable only if it was granted so. */
int granted_check(const struct granted *g, const struct plan *p, struct err *e);

#endif
