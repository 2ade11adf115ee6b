/* Whom the kernel kills when the sandbox's memory limit is reached: a program, not PID 1, whose
 * death would end all of them.
 *
 * PID 1 has the lowest value that it may have. It raises its own for the moment in which it makes a
 * process, which inherits it: so the process need not find its /proc entry. */
#include "init/init.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "proc/oom.h"

static int fd = -1, kills = -1, own;

/* 0, unless the launcher had the right to forbid less than its own. Nothing was opened before, so
 * that INIT_KILLS is the launcher's or not there. */
void oom_keep(void)
{
    if (fcntl(INIT_KILLS, F_SETFD, FD_CLOEXEC) == 0)
        kills = INIT_KILLS;
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

void oom_watch(int counter)
{
    kills = counter;
}

/* A kill is counted before its victim gets the signal: whoever reads this after reaping the victim
 * reads a count with that kill in it. */
uint32_t oom_kills(void)
{
    char text[256];
    ssize_t n = kills < 0 ? -1 : pread(kills, text, sizeof text, 0);
    struct str rest = { text, n > 0 ? (size_t)n : 0 }, line, word;
    uint64_t count = 0;

    while (rest.n) {
        rest = str_cut(rest, '\n', &line);
        line = str_cut(line, ' ', &word);
        if (str_eq(word, STR("oom_kill")) && str_to_u64(line, &count))
            return (uint32_t)count;
    }
    return 0;
}
