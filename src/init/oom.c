/* Whom the kernel kills when the sandbox's memory limit is reached: a program, not PID 1, whose
 * death would end all of them.
 *
 * PID 1 has the lowest value that it may have. It raises its own for the moment in which it makes a
 * process, which inherits it: so the process need not find its /proc entry. */
#include "init/init.h"

#include <unistd.h>

#include "proc/oom.h"

static int fd = -1, own;

/* 0, unless the launcher had the right to forbid less than its own. */
void oom_keep(void)
{
    fd = oom_open();
    own = oom_write(fd, 0) < 0 ? OOM_LAUNCHER : 0;
}

void oom_before_start(void)
{
    (void)oom_write(fd, OOM_WORKLOAD);
}

void oom_after_start(void)
{
    (void)oom_write(fd, own);
}
