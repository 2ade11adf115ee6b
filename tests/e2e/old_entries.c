/* SPDX-License-Identifier: Apache-2.0 */
/* The records of files of an earlier version's PID 1, which does not report the mode of a link's target: for a PID 1
 * that tests/e2e/test_upgrade.py starts sandboxes with. */
#include <sys/stat.h>

static int stat_without_mode(int fd, struct stat *st)
{
    int r = fstat(fd, st);

    st->st_mode = 0;
    return r;
}
#define fstat stat_without_mode
#include "engine/init/entries.c"
