/* SPDX-License-Identifier: Apache-2.0 */
/* Roles of callers. A role comes from the configuration, a token or the peer credentials of a
 * socket, never from the caller's own claim. Each role includes the rights of the one before. */
#ifndef DOMAIN_MODEL_ROLE_H
#define DOMAIN_MODEL_ROLE_H

enum role {
    ROLE_APPRENTICE,
    ROLE_JOURNEYMAN,
    ROLE_MASTER, /* approves calls that the others may not make alone */
    ROLE_COUNT_,
};

extern const char *const role_names[ROLE_COUNT_ + 1];

static inline enum role role_least(enum role a, enum role b)
{
    return a < b ? a : b;
}

#endif
