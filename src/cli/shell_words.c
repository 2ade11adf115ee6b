/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shell_words.h"

#include <stddef.h>
#include <unistd.h>

char *shell_words[] = { (char *)"/bin/sh", (char *)"-c",
                        (char *)"command -v bash >/dev/null && exec bash -l; exec sh -l", NULL };

bool shell_has_terminal(void)
{
    return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
}
