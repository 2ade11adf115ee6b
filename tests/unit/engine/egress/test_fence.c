/* SPDX-License-Identifier: Apache-2.0 */
/* Each question is asked in a process of its own, which does not come out again. */
#include "engine/egress/fence.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"

enum { NO_FENCE = 255 };

static char path[] = "/tmp/fence-XXXXXX";
static int dir = -1;

static void make_dir(void)
{
    int fd;

    CHECK(mkdtemp(path));
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd = openat(dir, "old", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(dir >= 0 && fd >= 0 && write(fd, "old\n", 4) == 4);
    close(fd);
}

static void drop_dir(void)
{
    unlinkat(dir, "old", 0);
    unlinkat(dir, "new", 0);
    drop_fd(&dir);
    rmdir(path);
}

/* The result of a call behind the fence: 0, or an errno. */
static int behind(struct fence f, int (*question)(void))
{
    pid_t child = fork();
    int status;
    struct err e;

    CHECK(child >= 0);
    if (child == 0)
        _exit(fence_enter(&f, &e) < 0 ? NO_FENCE : question());
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) != NO_FENCE);
    return WEXITSTATUS(status);
}

static int opened(int fd)
{
    return fd < 0 ? errno : 0;
}

static int read_old(void)
{
    return opened(openat(dir, "old", O_RDONLY));
}

static int append_old(void)
{
    int fd = openat(dir, "old", O_WRONLY | O_CREAT | O_APPEND, 0600);

    return fd >= 0 && write(fd, "x", 1) == 1 ? 0 : errno;
}

static int empty_old(void)
{
    return opened(openat(dir, "old", O_WRONLY | O_TRUNC));
}

static int make_new(void)
{
    int fd = openat(dir, "new", O_WRONLY | O_CREAT | O_APPEND, 0600);

    return fd >= 0 && write(fd, "x", 1) == 1 ? 0 : errno;
}

static int read_outside(void)
{
    return opened(openat(AT_FDCWD, "/etc/passwd", O_RDONLY));
}

static int make_outside(void)
{
    return opened(openat(dir, "../fence-outside", O_WRONLY | O_CREAT, 0600));
}

static int remove_old(void)
{
    return unlinkat(dir, "old", 0) < 0 ? errno : 0;
}

static int make_folder(void)
{
    return mkdirat(dir, "new", 0700) < 0 ? errno : 0;
}

static int landlock_abi(void)
{
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

TEST(without_files_none_is_opened)
{
    const struct fence none = { .readable = -1, .appendable = -1 };

    make_dir();
    CHECK_INT(behind(none, read_old), ENOSYS);
    CHECK_INT(behind(none, append_old), ENOSYS);
    CHECK_INT(behind(none, read_outside), ENOSYS);
    drop_dir();
}

TEST(what_is_readable_is_not_written)
{
    struct fence f = { .appendable = -1 };

    make_dir();
    f.readable = dir;
    CHECK_INT(behind(f, read_old), 0);
    CHECK_INT(behind(f, remove_old), ENOSYS);
    if (landlock_abi() >= 1) {
        CHECK_INT(behind(f, append_old), EACCES);
        CHECK_INT(behind(f, make_new), EACCES);
        CHECK_INT(behind(f, read_outside), EACCES);
    }
    drop_dir();
}

TEST(what_is_appendable_is_made_and_written_and_nothing_else)
{
    enum { ABI_TRUNCATE = 3 };
    struct fence f = { .readable = -1 };

    make_dir();
    f.appendable = dir;
    CHECK_INT(behind(f, make_new), 0);
    CHECK_INT(behind(f, append_old), 0);
    CHECK_INT(behind(f, remove_old), ENOSYS);
    CHECK_INT(behind(f, make_folder), ENOSYS);
    if (landlock_abi() >= 1) {
        CHECK_INT(behind(f, read_old), EACCES);
        CHECK_INT(behind(f, read_outside), EACCES);
        CHECK_INT(behind(f, make_outside), EACCES);
    }
    if (landlock_abi() >= ABI_TRUNCATE)
        CHECK_INT(behind(f, empty_old), EACCES);
    drop_dir();
}

static int open_internet(void)
{
    return opened(socket(AF_INET, SOCK_STREAM, 0));
}

static int open_local(void)
{
    return opened(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int run_program(void)
{
    char *const argv[] = { (char[]){ "true" }, NULL };

    execv("/bin/true", argv);
    return errno;
}

static int make_process(void)
{
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

    if (child == 0)
        _exit(0);
    return child < 0 ? errno : 0;
}

static int make_code(void)
{
    enum { PAGE = 4096 };
    static _Alignas(PAGE) char page[PAGE];

    return mprotect(page, PAGE, PROT_READ | PROT_EXEC) < 0 ? errno : 0;
}

TEST(calls_that_a_worker_does_not_need_are_not_there)
{
    const struct fence none = { .readable = -1, .appendable = -1 };

    CHECK_INT(behind(none, open_internet), 0);
    CHECK_INT(behind(none, open_local), EPERM);
    CHECK_INT(behind(none, run_program), ENOSYS);
    CHECK_INT(behind(none, make_process), ENOSYS);
    CHECK_INT(behind(none, make_code), EPERM);
}
