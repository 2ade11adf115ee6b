/* SPDX-License-Identifier: Apache-2.0 */
/* The file that a proposal is written to. It appears whole or not at all, and replaces a file only
 * if the proposal began with it and it has not changed since. */
#ifndef CLI_LEARN_POLICY_FILE_H
#define CLI_LEARN_POLICY_FILE_H

#include "base/err.h"
#include "base/str.h"

/* Whether `path` may be written: it does not exist, or it is the file `base` (NULL: none). For a
 * check before a long run. */
int policy_file_check(const char *path, const char *base, struct err *e);

/* base_text: what `base` had in it when the proposal was made. */
int policy_file_write(const char *path, const char *base, struct str base_text, struct str text,
                      struct err *e);

#endif
