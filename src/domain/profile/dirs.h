/* SPDX-License-Identifier: Apache-2.0 */
/* The directories with profiles. */
#ifndef DOMAIN_PROFILE_DIRS_H
#define DOMAIN_PROFILE_DIRS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "lib/json/bind.h"

/* In order of precedence, lowest first: $SANDBOXER_PROFILES (absolute directories separated by ':')
 * or else the shipped profiles, /etc/sandboxer/profiles and, unless we are root,
 * $XDG_CONFIG_HOME/sandboxer/profiles; then `more`. The list is on the arena. */
int dirs_list(struct json_strs more, struct arena *a, struct json_strs *ret, struct err *e);

/* The shipped profiles: beside the program in a build directory, in the tree that the program is
 * installed in (DIR/bin or DIR/libexec/sandboxer), wherever that was moved to, else where the build
 * was configured to install them. */
void dirs_shipped(char *out, size_t cap);
/* The first two of them, for the program with this path; false: there is no such directory. */
bool dirs_beside(struct str program, char *out, size_t cap);

#endif
