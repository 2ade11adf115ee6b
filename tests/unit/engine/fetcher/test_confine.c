/* SPDX-License-Identifier: Apache-2.0 */
/* Each attempt is made in a process of its own, behind the fence of the fetch process. */
#include "engine/fetcher/confine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "harness/tap.h"
#include "lib/proc/caps.h"

enum { NO_FENCE = 255, WRONG = 254 };

/* The errno of an attempt behind the fence, 0 if it succeeds. */
static int attempt(int (*what)(void))
{
    pid_t child = fork();
    struct err e;
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        if (fetcher_confine(&e) < 0)
            _exit(NO_FENCE);
        _exit(what());
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) != NO_FENCE);
    return WEXITSTATUS(status);
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

static int send_signal(void)
{
    return result_of(kill(getppid(), 0));
}

static int open_unix(void)
{
    return result_of(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int open_netlink(void)
{
    return result_of(socket(AF_NETLINK, SOCK_RAW, 0));
}

static int open_packet(void)
{
    return result_of(socket(AF_PACKET, SOCK_RAW, 0));
}

static int serve_tcp(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return fd < 0 ? WRONG : result_of(bind(fd, (struct sockaddr *)&a, sizeof a));
}

static int map_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0) == MAP_FAILED
               ? errno
               : 0;
}

static int make_file(void)
{
    return result_of(open("/tmp/fetch-process-made-this", O_WRONLY | O_CREAT, 0600));
}

static int remove_file(void)
{
    return result_of(unlink("/tmp/fetch-process-made-this"));
}

static int read_accounts(void)
{
    return result_of(open("/etc/passwd", O_RDONLY));
}

static int read_process(void)
{
    return result_of(open("/proc/self/environ", O_RDONLY));
}

static int read_hosts(void)
{
    return result_of(open("/etc/hosts", O_RDONLY));
}

static int connect_tcp(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    a.sin_port = htons(1);
    if (fd < 0)
        return WRONG;
    return connect(fd, (struct sockaddr *)&a, sizeof a) < 0 && errno == ECONNREFUSED ? 0 : errno;
}

static int make_pair(void)
{
    int pair[2];

    return result_of(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
}

static int make_memory(void)
{
    char path[32];
    int fd = memfd_create("x", MFD_CLOEXEC);

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return fd < 0 ? errno : result_of(open(path, O_RDONLY));
}

static bool has_landlock(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 1;
}

TEST(the_fetch_process_can_do_what_requests_need)
{
    CHECK_INT(attempt(read_hosts), 0);
    CHECK_INT(attempt(connect_tcp), 0);
    CHECK_INT(attempt(make_pair), 0);
    CHECK_INT(attempt(make_memory), 0);
}

TEST(and_nothing_else)
{
    static const struct {
        const char *name;
        int (*what)(void);
        bool by_landlock;
    } attempts[] = {
        { "runs a program", run_program, false },
        { "starts a process", start_process, false },
        { "sends a signal", send_signal, false },
        { "opens a local socket", open_unix, false },
        { "opens a netlink socket", open_netlink, false },
        { "opens a packet socket", open_packet, false },
        { "serves TCP", serve_tcp, false },
        { "maps code", map_code, false },
        { "makes a file", make_file, true },
        { "removes a file", remove_file, false },
        { "reads accounts", read_accounts, true },
        { "reads its environment", read_process, true },
    };

    for (size_t i = 0; i < COUNT_OF(attempts); i++) {
        int got;

        if (attempts[i].by_landlock && !has_landlock())
            continue;
        got = attempt(attempts[i].what);
        if (got != EPERM && got != ENOSYS && got != EACCES)
            FAIL("the fetch process %s: %d", attempts[i].name, got);
    }
}

static int no_core(void)
{
    struct rlimit core;

    return getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_max == 0 ? 0 : WRONG;
}

static int no_capabilities(void)
{
    return caps_permitted() == 0 ? 0 : WRONG;
}

TEST(it_leaves_no_core_and_has_no_capabilities)
{
    CHECK_INT(attempt(no_core), 0);
    CHECK_INT(attempt(no_capabilities), 0);
}
