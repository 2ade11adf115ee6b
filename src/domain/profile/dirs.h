/* Where profiles are looked for. */
#ifndef PROFILE_DIRS_H
#define PROFILE_DIRS_H

#include "base/arena.h"
#include "base/err.h"
#include "json/bind.h"

/* In this order, of which later ones win: $SANDBOXER_PROFILES (absolute directories with ':'
 * between them) or else the shipped profiles, /etc/sandboxer/profiles and, unless we are root,
 * $XDG_CONFIG_HOME/sandboxer/profiles; then `more`. The list is on the arena. */
int dirs_list(struct json_strs more, struct arena *a, struct json_strs *ret, struct err *e);

/* The shipped profiles: beside the program in a build directory, else where they were installed. */
void dirs_shipped(char *out, size_t cap);

#endif
