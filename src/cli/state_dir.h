/* SPDX-License-Identifier: Apache-2.0 */
/* Where this user's state is: $SANDBOXER_STATE, else root's place or the user's own. */
#ifndef CLI_STATE_DIR_H
#define CLI_STATE_DIR_H

#include <stddef.h>

#include "base/err.h"

int state_dir_path(char *out, size_t cap, struct err *e);

/* -ERR_TOO_BIG: the path of a file in this directory would be too long. */
int state_dir_fail_size(const char *path, struct err *e);

/* Opens the directory, or creates it. Refuses a directory that belongs to another user or that
 * others can write to. */
int state_dir_open(int *ret, struct err *e);

#endif
