/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "cli/verb.h"

/* Opens /dev/null as 0, 1 and 2 where the caller closed them, so that no socket gets these
 * numbers. */
static int fill_stdio(void)
{
    int opened = 0;

    for (int fd = 0; fd < 3 && opened >= 0; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            opened = openat(AT_FDCWD, "/dev/null", O_RDWR); /* the lowest that is free: this one */
    return opened < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    return fill_stdio() < 0 ? EXIT_TOOL_FAILED : cli_main(argc, argv);
}
