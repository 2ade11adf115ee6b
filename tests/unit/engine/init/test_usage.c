/* SPDX-License-Identifier: Apache-2.0 */
/* The processor time that decides whether a sandbox is idle: that of its control group. */
#include "engine/init/init.h"

#include <sys/mman.h>
#include <unistd.h>

#include "harness/tap.h"

/* What is reported when the counter of the group reads so. */
static int64_t cpu_of(const char *counter)
{
    struct control_used used = { 0 };
    int fd = memfd_create("counter", MFD_CLOEXEC);

    CHECK(fd >= 0 && write(fd, counter, strlen(counter)) == (ssize_t)strlen(counter));
    usage_watch(fd);
    usage_read(&used);
    usage_watch(-1);
    close(fd);
    return used.cpu_ns;
}

/* The processes that /proc shows have other times, and are the machine's here. */
TEST(the_time_is_that_of_the_group_and_never_less_than_before)
{
    CHECK_INT(cpu_of("7000\n"), 7000); /* cpuacct.usage of v1: nanoseconds */
    CHECK_INT(cpu_of("usage_usec 8\nuser_usec 5000000\nsystem_usec 1\n"),
              8000); /* cpu.stat of v2 */
    CHECK_INT(cpu_of("user_usec 5000000\nsystem_usec 1\nusage_usec 9\n"), 9000);
    CHECK_INT(cpu_of("3000\n"), 9000);
    CHECK_INT(cpu_of("123456789012345678\n"), 123456789012345678);
}
