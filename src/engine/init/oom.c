/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the OOM killer choose a program instead of PID 1, whose death would end the sandbox.
 *
 * PID 1 has the lowest oom_score_adj that it may have. It raises its own value while it creates a
 * process, which inherits it: so the process need not open its /proc entry. */
#include "engine/init/init.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/str.h"
#include "lib/proc/oom.h"

static int fd = -1, kills = -1, own;

/* Uses 0, unless the launcher had the right to set a minimum: then the kernel refuses values
 * below the launcher's. Nothing was opened before, so INIT_KILLS is the launcher's descriptor or
 * closed. */
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

/* The kernel counts a kill before the victim gets the signal: a read after reaping the victim
 * includes it. */
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
