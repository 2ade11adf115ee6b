/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/monitor_request.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "harness/tap.h"
#include "engine/sync/sync.h"

static struct err e;

TEST(what_is_no_question_is_refused)
{
    struct monitor_request good = { .kind = MONITOR_SYNC }, a;

    CHECK_OK(monitor_request_check(&good, &e), e);
    a = (struct monitor_request){ .kind = MONITOR_END_EGRESS };
    CHECK_OK(monitor_request_check(&a, &e), e);
    a = (struct monitor_request){ .kind = MONITOR_KIND_COUNT_ };
    CHECK_INT(monitor_request_check(&a, &e), -ERR_INVALID);
    a = (struct monitor_request){ .kind = MONITOR_SYNC, .receive = 2 };
    CHECK_INT(monitor_request_check(&a, &e), -ERR_INVALID);
    a = (struct monitor_request){ .kind = MONITOR_SYNC, .flags = ~0u };
    CHECK_INT(monitor_request_check(&a, &e), -ERR_INVALID);
    a = (struct monitor_request){ .kind = MONITOR_SYNC, .top = ".." };
    CHECK_INT(monitor_request_check(&a, &e), -ERR_INVALID);
    a = (struct monitor_request){ .kind = MONITOR_SYNC, .top = "a/b" };
    CHECK_INT(monitor_request_check(&a, &e), -ERR_INVALID);
    a = good;
    memset(a.path, 'x', sizeof a.path);
    CHECK_INT(monitor_request_check(&a, &e), -ERR_INVALID);
}

TEST(descriptors_are_of_the_kinds_that_they_must_be)
{
    int fds[2], file = memfd_create("manifest", MFD_CLOEXEC), dir = open("/", O_PATH | O_CLOEXEC);

    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    CHECK_OK(monitor_request_check_fds(fds[0], file, -1, &e), e);
    CHECK_OK(monitor_request_check_fds(fds[0], file, file, &e), e);
    CHECK_INT(monitor_request_check_fds(file, file, -1, &e), -ERR_INVALID);
    CHECK_INT(monitor_request_check_fds(fds[0], fds[1], -1, &e), -ERR_INVALID);
    CHECK_INT(monitor_request_check_fds(fds[0], file, dir, &e), -ERR_INVALID);
    CHECK_INT(monitor_request_check_fds(-1, file, -1, &e), -ERR_SYS);
}

TEST(a_path_is_named_below_a_root)
{
    const char *roots[] = { "/home", "/srv/work/" };
    const struct launcher_options o = { .untrusted = true, .roots = roots, .n_roots = 2 };
    const struct launcher_options own = { .untrusted = false };
    struct monitor_request a = { .kind = MONITOR_GRANT };

    CHECK_OK(monitor_request_name_dir(&a, &o, "/srv/work/x", &e), e);
    CHECK_INT(a.root, 2);
    CHECK_STR(str_from(a.path), "x");
    CHECK_OK(monitor_request_name_dir(&a, &o, "/home", &e), e);
    CHECK_STR(str_from(a.path), ".");
    CHECK_INT(monitor_request_name_dir(&a, &o, "/homes/x", &e), -ERR_DENIED);
    CHECK_INT(monitor_request_name_dir(&a, &o, "/etc", &e), -ERR_DENIED);
    CHECK(strstr(e.msg, "/etc: workspaces.roots allows /home, /srv/work/;"));
    CHECK_OK(monitor_request_name_dir(&a, &own, "/etc", &e), e);
    CHECK_INT(a.root, 0);
    CHECK_STR(str_from(a.path), "/etc");
}
