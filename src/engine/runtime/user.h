/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the user of a sandbox: "agent", "1000" or "1000:1000". */
#ifndef ENGINE_RUNTIME_USER_H
#define ENGINE_RUNTIME_USER_H

#include <stdint.h>

#include "base/err.h"

struct user {
    const char *name; /* borrowed; NULL: by number */
    uint32_t uid, gid;
};

/* A number without a gid is used for both. Only the sandbox's /etc/passwd knows whether a name
 * exists. */
int user_parse(const char *text, struct user *ret, struct err *e);

/* Translates the names of the runtime's own /etc/passwd, on the host's system directories. Unknown
 * names stay names. */
void user_number(struct user *u);

#endif
