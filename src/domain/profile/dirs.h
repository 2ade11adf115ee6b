/* SPDX-License-Identifier: Apache-2.0 */
/* The directories with profiles. */
#ifndef DOMAIN_PROFILE_DIRS_H
#define DOMAIN_PROFILE_DIRS_H

#include "base/arena.h"
#include "base/err.h"
#include "lib/json/bind.h"

/* In order of precedence, lowest first: $SANDBOXER_PROFILES (absolute directories separated by ':')
 * or else the shipped profiles, /etc/sandboxer/profiles and, unless we are root,
 * $XDG_CONFIG_HOME/sandboxer/profiles; then `more`. The list is on the arena. */
int dirs_list(struct json_strs more, struct arena *a, struct json_strs *ret, struct err *e);

/* The shipped profiles: beside the program in a build directory, else in the installed location. */
void dirs_shipped(char *out, size_t cap);

#endif
