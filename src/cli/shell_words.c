/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shell_words.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

char *shell_words[] = { (char *)"/bin/sh", (char *)"-c",
                        (char *)"command -v bash >/dev/null && exec bash -l; exec sh -l", NULL };

bool shell_has_terminal(void)
{
    return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
}

static const char *const interactive_programs[] = { "ash", "bash", "dash",   "fish",
                                                    "ksh", "node", "python", "python3",
                                                    "sh",  "zsh",  NULL };
static const char *const interactive_flags[] = { "-i", "-l", "-il", "-li", "--login", NULL };

static bool has_listed_word(const char *const *words, const char *word)
{
    while (*words && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

bool shell_is_interactive(char *const *command)
{
    const char *slash = strrchr(command[0], '/');

    for (size_t i = 1; command[i]; i++)
        if (!has_listed_word(interactive_flags, command[i]))
            return false;
    return has_listed_word(interactive_programs, slash ? slash + 1 : command[0]);
}
