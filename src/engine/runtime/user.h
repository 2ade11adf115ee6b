/* A user of a sandbox, as people write one: "agent", "1000" or "1000:1000". */
#ifndef RUNTIME_USER_H
#define RUNTIME_USER_H

#include <stdint.h>

#include "base/err.h"

struct user {
    const char *name; /* borrowed; NULL: by number */
    uint32_t uid, gid;
};

/* Without a gid of its own, a number is both. Whether there is such a name only the sandbox's
 * /etc/passwd can tell. */
int user_parse(const char *text, struct user *ret, struct err *e);

/* Gives a name its number where the names are ours: on the host's system directories. What we do
 * not know stays as it is. */
void user_number(struct user *u);

#endif
