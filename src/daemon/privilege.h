/* SPDX-License-Identifier: Apache-2.0 */
/* Giving up the rights of root. */
#ifndef DAEMON_PRIVILEGE_H
#define DAEMON_PRIVILEGE_H

#include <sys/types.h>

#include "base/err.h"

/* From systemd's range for services without a user of their own: the uids of the control plane and
 * of egress workers if neither the configuration nor the system names a user; and of the fetch
 * process. */
enum { PRIVILEGE_UID = 61741, PRIVILEGE_EGRESS_UID, PRIVILEGE_FETCH_UID };

struct identity_choice {
    uid_t uid;
    gid_t gid;
};

/* `user` is a name or a number; NULL: the user "sandboxer" if there is one, else PRIVILEGE_UID. For
 * a plain user it is that user, and `user` must not name another. */
int privilege_choose(const char *user, struct identity_choice *ret, struct err *e);
/* The same for egress workers and the fetch process: that user if there is one, else that uid. */
struct identity_choice privilege_choose_program(const char *user, uid_t otherwise);
/* For the monitor: keeps only the capabilities that it and the programs it starts need (the table
 * in privilege.c), and disables core dumps and tracing. No effect for a plain user. */
int privilege_limit(struct err *e);
/* Becomes that user for good: no capabilities, no way back. */
int privilege_drop(const struct identity_choice *to, struct err *e);

#endif
