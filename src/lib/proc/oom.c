/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/oom.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"

int oom_open(void)
{
    return open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
}

int oom_write(int fd, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    return pwrite(fd, text, strlen(text), 0) < 0 ? -1 : 0;
}

int oom_set(int value, struct err *e)
{
    AUTO_CLOSE int fd = oom_open();

    if (fd < 0 || oom_write(fd, value) < 0)
        return err_sys(e, "setting oom_score_adj to %d", value);
    return 0;
}
