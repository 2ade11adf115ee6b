/* SPDX-License-Identifier: Apache-2.0 */
/* Each attempt is made in a process of its own, behind a fence like the control plane's. */
#include "lib/fence/fence.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "daemon/plane_calls.h"
#include "harness/tap.h"

enum { NO_FENCE = 255 };

static char own[] = "/tmp/fence-own-XXXXXX", other[] = "/tmp/fence-other-XXXXXX";
static int dir = -1, reports[2] = { -1, -1 };

static void make_dirs(void)
{
    int fd;

    CHECK(mkdtemp(own) && mkdtemp(other) && pipe2(reports, O_CLOEXEC | O_NONBLOCK) == 0);
    dir = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(dir >= 0);
    for (int i = 0; i < 2; i++) {
        char path[64];

        snprintf(path, sizeof path, "%s/file", i ? other : own);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        CHECK(fd >= 0);
        close(fd);
    }
}

static void remove_dirs(void)
{
    static const char *const names[] = { "file", "new", "sub/new", "sub", "socket" };
    char path[64];

    for (size_t i = 0; i < 2 * COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/%s", i % 2 ? other : own, names[i / 2]);
        (void)remove(path);
    }
    rmdir(own);
    rmdir(other);
}

static void on_refused(int call, const char *name)
{
    (void)!write(reports[1], name, strlen(name) + 1);
}

/* The errno of an attempt behind the fence, 0 if it succeeds. */
static int attempt(int (*what)(void))
{
    static const int families[] = { AF_UNIX };
    static const int ioctls[] = { TIOCSWINSZ };
    const struct fence_place places[] = { { dir, FENCE_READ | FENCE_CHANGE } };
    const struct fence_rules rules = { .who = "a test",
                                       .calls = { FENCE_CALLS(fence_base_calls),
                                                  FENCE_CALLS(fence_service_calls),
                                                  FENCE_CALLS(plane_calls) },
                                       .families = families,
                                       .n_families = COUNT_OF(families),
                                       .ioctls = ioctls,
                                       .n_ioctls = COUNT_OF(ioctls),
                                       .places = places,
                                       .n_places = COUNT_OF(places),
                                       .threads = true,
                                       .refusal = FENCE_TRAP };
    pid_t child = fork();
    struct err e;
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        if (fence_trap(on_refused, &e) < 0 || fence_apply(&rules, &e) < 0)
            _exit(NO_FENCE);
        _exit(what());
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) != NO_FENCE);
    return WEXITSTATUS(status);
}

/* … and the name of the call that was reported; "" if none was. */
static const char *reported(void)
{
    static char name[64];
    ssize_t n = read(reports[0], name, sizeof name - 1);

    name[n > 0 ? n : 0] = 0;
    return name;
}

static int result_of(long r)
{
    return r < 0 ? errno : 0;
}

static int run_program(void)
{
    char *const argv[] = { (char[]){ "true" }, NULL };

    return result_of(execve("/bin/true", argv, NULL));
}

static int start_process(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    return result_of(pid);
}

static int trace_parent(void)
{
    return result_of(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
}

static int send_signal(void)
{
    return result_of(kill(getppid(), 0));
}

static int mount_something(void)
{
    return result_of(mount("none", own, "tmpfs", 0, NULL));
}

static int enter_namespace(void)
{
    return result_of(unshare(CLONE_NEWUSER));
}

static int use_keyring(void)
{
    return result_of(syscall(SYS_keyctl, 0, -3, 0));
}

static int load_bpf(void)
{
    return result_of(syscall(SYS_bpf, 0, NULL, 0));
}

static int make_ring(void)
{
    return result_of(syscall(SYS_io_uring_setup, 1, NULL));
}

static int open_perf(void)
{
    return result_of(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
}

static int take_descriptor(void)
{
    return result_of(syscall(SYS_pidfd_getfd, 0, 0, 0));
}

static int open_packet_socket(void)
{
    return result_of(socket(AF_PACKET, SOCK_RAW, 0));
}

static int open_internet_socket(void)
{
    return result_of(socket(AF_INET, SOCK_STREAM, 0));
}

static int map_code(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? errno : 0;
}

static int inject_input(void)
{
    return result_of(ioctl(0, TIOCSTI, "x"));
}

/* Lists are shared between processes: a call in two lists would hide which one grants it. */
TEST(each_allowed_call_is_in_one_list_only)
{
    static const struct fence_calls lists[] = { FENCE_CALLS(fence_base_calls),
                                                FENCE_CALLS(fence_service_calls),
                                                FENCE_CALLS(plane_calls) };
    static bool seen[1024];
    size_t n = 0;

    for (size_t k = 0; k < COUNT_OF(lists); k++)
        for (size_t i = 0; i < lists[k].n; i++, n++) {
            CHECK(lists[k].p[i] >= 0 && lists[k].p[i] < (int)COUNT_OF(seen));
            CHECK(!seen[lists[k].p[i]]);
            seen[lists[k].p[i]] = true;
        }
#ifdef __x86_64__
    CHECK_INT(n, 114);
#endif
}

TEST(forbidden_calls_fail_and_are_named)
{
    static const struct {
        int (*what)(void);
        const char *call;
    } all[] = {
        { run_program, "execve" },          { start_process, "clone" },
        { trace_parent, "ptrace" },         { send_signal, "kill" },
        { mount_something, "mount" },       { enter_namespace, "unshare" },
        { use_keyring, "keyctl" },          { load_bpf, "bpf" },
        { make_ring, "io_uring_setup" },    { open_perf, "perf_event_open" },
        { take_descriptor, "pidfd_getfd" }, { open_packet_socket, "socket" },
        { open_internet_socket, "socket" }, { map_code, "mmap" },
        { inject_input, "ioctl" },
    };

    make_dirs();
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        CHECK_INT(attempt(all[i].what), EPERM);
        CHECK_STR(str_from(reported()), all[i].call);
    }
    remove_dirs();
}

static int change_own(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd = openat(dir, "new", O_RDWR | O_CREAT | O_EXCL, 0600);

    if (fd < 0 || write(fd, "x", 1) != 1 || ftruncate(fd, 0) < 0 || mkdirat(dir, "sub", 0700) < 0 ||
        renameat(dir, "new", dir, "sub/new") < 0)
        return errno;
    /* Its own descriptors stay visible to a process that is not dumpable. */
    snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d/socket", dir);
    return result_of(bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&at, sizeof at));
}

static int read_other(void)
{
    char path[64];

    snprintf(path, sizeof path, "%s/file", other);
    return result_of(open(path, O_RDONLY));
}

static int write_other(void)
{
    char path[64];

    snprintf(path, sizeof path, "%s/file", other);
    return result_of(open(path, O_WRONLY));
}

static int make_other(void)
{
    char path[64];

    snprintf(path, sizeof path, "%s/sub", other);
    return result_of(mkdir(path, 0700));
}

static int list_root(void)
{
    return result_of(open("/", O_RDONLY | O_DIRECTORY));
}

TEST(only_its_own_directory_is_reached)
{
    make_dirs();
    CHECK_INT(attempt(change_own), 0);
    if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1)
        SKIP("this kernel has no Landlock");
    CHECK_INT(attempt(read_other), EACCES);
    CHECK_INT(attempt(write_other), EACCES);
    CHECK_INT(attempt(make_other), EACCES);
    CHECK_INT(attempt(list_root), EACCES);
    remove_dirs();
}

static int look_at_flags(void)
{
    struct rlimit core;

    if (prctl(PR_GET_DUMPABLE) >= 0) /* prctl() itself is not among the calls */
        return 1;
    return getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0 ? 0 : 2;
}

static void *read_other_there(void *arg)
{
    *(int *)arg = read_other();
    (void)run_program();
    return NULL;
}

/* A thread that is created later is behind the same fence, and its refused call does not end the
 * process. */
static int read_in_thread(void)
{
    pthread_t t;
    int r = -1;

    if (pthread_create(&t, NULL, read_other_there, &r) != 0 || pthread_join(t, NULL) != 0)
        return NO_FENCE - 1;
    return r;
}

TEST(core_dumps_are_off_and_threads_are_covered)
{
    make_dirs();
    CHECK_INT(attempt(look_at_flags), 0);
    CHECK_STR(str_from(reported()), "prctl");
    CHECK_INT(attempt(read_in_thread), EACCES);
    CHECK_STR(str_from(reported()), "execve");
    remove_dirs();
}
