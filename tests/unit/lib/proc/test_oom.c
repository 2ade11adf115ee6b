/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/proc/oom.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "lib/proc/caps.h"

static int read_score(void)
{
    AUTO_CLOSE int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
    char text[16] = "";

    return fd >= 0 && read(fd, text, sizeof text - 1) > 0 ? (int)strtol(text, NULL, 10) : -9999;
}

TEST(a_raised_score_is_inherited)
{
    struct err e;
    int status;
    pid_t pid;

    CHECK_OK(oom_set(OOM_WORKLOAD, &e), e);
    CHECK_INT(read_score(), OOM_WORKLOAD);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(read_score() == OOM_WORKLOAD ? 0 : 1);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
}

TEST(a_descriptor_sets_it_again_and_again)
{
    AUTO_CLOSE int fd = oom_open();

    CHECK(fd >= 0);
    CHECK_INT(oom_write(fd, OOM_WORKLOAD), 0);
    CHECK_INT(read_score(), OOM_WORKLOAD);
    CHECK_INT(oom_write(fd, OOM_LAUNCHER), 0);
    CHECK_INT(read_score(), OOM_LAUNCHER);
}

TEST(lowering_needs_a_capability)
{
    struct err e;
    int r = oom_set(OOM_DAEMON, &e);

    if (caps_permitted() & CAP_BIT(CAP_SYS_RESOURCE))
        CHECK_INT(r, 0);
    else
        CHECK_INT(r, -(int)ERR_SYS);
}
