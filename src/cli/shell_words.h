/* SPDX-License-Identifier: Apache-2.0 */
/* The command of a shell that a person did not name. */
#ifndef CLI_SHELL_WORDS_H
#define CLI_SHELL_WORDS_H

#include <stdbool.h>

extern char *shell_words[]; /* bash if it is installed, else sh; ended by NULL */

/* Whether a person could use a shell here: stdin and stdout are terminals. */
bool shell_has_terminal(void);

/* Whether a command is a shell, or another program that reads commands from a terminal, with
 * nothing to run. */
bool shell_is_interactive(char *const *command);

#endif
