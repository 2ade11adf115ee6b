/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts for shells, from the tables that the program works by. Ids come from `list -q`
 * and its like, which never start a daemon for it. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include <stdbool.h>
#include <stdio.h>

/* "bash", "zsh" or "fish"; false for any other. */
bool completion_print(FILE *to, const char *shell);

extern const char completion_shells[]; /* their names, separated by blanks */

#endif
