/* SPDX-License-Identifier: Apache-2.0 */
/* Names of owners. An owner is a user of the unix socket, whom records belong to and tokens act
 * for. */
#ifndef DOMAIN_MODEL_OWNER_H
#define DOMAIN_MODEL_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

/* Administrators are root and `daemon`, the user that the daemon runs as. */
bool owner_is_administrator(const char *owner, uid_t daemon);

#endif
