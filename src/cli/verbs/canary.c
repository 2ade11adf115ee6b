/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox that tries what it may and what it must not be able to do, and shows the result. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "cli/run/session.h"
#include "cli/verbs/verbs.h"

struct canary_options {
    bool inside;
};

static const struct option_spec options[] = {
    /* The probes, which `canary` runs in its sandbox. */
    { "inside", .at = offsetof(struct canary_options, inside) },
};

/* Each attempt returns whether it succeeded; errno is the reason of a failure. */

static bool try_program(void)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", "exit 0", (char *)NULL);
        _exit(1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool try_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool write_scratch(void)
{
    return try_open("/tmp/canary", O_WRONLY | O_CREAT);
}

static bool open_terminal(void)
{
    return try_open("/dev/ptmx", O_RDWR | O_NOCTTY);
}

static bool try_connect(const char *address, int port)
{
    AUTO_CLOSE int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

    inet_pton(AF_INET, address, &to.sin_addr);
    return sock >= 0 &&
           (connect(sock, (struct sockaddr *)&to, sizeof to) == 0 || errno == EINPROGRESS);
}

static bool use_loopback(void)
{
    AUTO_CLOSE int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7) };

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(8080);
    return sock >= 0 && bind(sock, (struct sockaddr *)&at, sizeof at) == 0 &&
           listen(sock, 1) == 0 && try_connect("127.0.0.1", 8080);
}

static bool reach_network(void)
{
    return try_connect("192.0.2.1", 80);
}

static bool read_passwords(void)
{
    return try_open("/etc/shadow", O_RDONLY);
}

static bool see_host(void)
{
    return access("/var/lib/dpkg", F_OK) == 0 || access("/root/.ssh", F_OK) == 0 ||
           access("/boot", F_OK) == 0;
}

static bool change_programs(void)
{
    return try_open("/usr/bin/canary", O_WRONLY | O_CREAT);
}

static bool read_supervisor(void)
{
    return try_open("/proc/1/environ", O_RDONLY);
}

static bool signal_supervisor(void)
{
    return kill(1, SIGTERM) == 0;
}

static bool mount_something(void)
{
    return mount("none", "/tmp", "tmpfs", 0, NULL) == 0;
}

static bool make_namespace(void)
{
    return unshare(CLONE_NEWUSER) == 0;
}

static bool try_block_device(void)
{
    return mknod("/tmp/disk", S_IFBLK | 0600, makedev(8, 0)) == 0;
}

static bool trace_process(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;
}

static bool become_root(void)
{
    struct stat st;

    return chown("/tmp", 1, 1) == 0 || (stat("/tmp", &st) == 0 && chroot("/tmp") == 0);
}

static const struct run_probes {
    bool allowed;
    bool (*attempt)(void);
    const char *what;
} probes[] = {
    { true, try_program, "run a program" },
    { true, write_scratch, "write to /tmp" },
    { true, open_terminal, "open a terminal" },
    { true, use_loopback, "talk to itself on loopback" },
    { false, reach_network, "reach a network" },
    { false, read_passwords, "read the host's passwords" },
    { false, see_host, "see the host's files" },
    { false, change_programs, "change the system's programs" },
    { false, read_supervisor, "look into its supervisor" },
    { false, signal_supervisor, "signal its supervisor" },
    { false, mount_something, "mount a file system" },
    { false, make_namespace, "make a user namespace" },
    { false, try_block_device, "make a device" },
    { false, trace_process, "trace a process" },
    { false, become_root, "use root's powers" },
};

static int run_probes(void)
{
    int wrong = 0;

    for (int allowed = 1; allowed >= 0; allowed--)
        for (size_t i = 0; i < COUNT_OF(probes); i++) {
            bool could;

            if (probes[i].allowed != (bool)allowed)
                continue;
            errno = 0;
            could = probes[i].attempt();
            wrong += could != probes[i].allowed;
            printf("  %-9s  %-30s %s%s\n", could ? "could" : "could not", probes[i].what,
                   could ? "" : strerror(errno), could == probes[i].allowed ? "" : "   <- WRONG");
        }
    return wrong;
}

static int launch_canary(void)
{
    static const char *const argv[] = { "/canary", "canary", "--inside", NULL };
    struct session s AUTO(session_done) = { .control = -1 };
    struct process_start start = { .what = START_PROGRAM,
                                   .argv = argv,
                                   .timeout_ns = 10 * NS_PER_S };
    int64_t began = clock_mono();
    struct err e;
    int status, r = session_init(&s, &e);

    s.plan.memory = UINT64_C(256) << 20;
    s.plan.disk = UINT64_C(64) << 20;
    s.plan.pids = 64;
    if (r >= 0)
        r = session_add_mount(&s, "/proc/self/exe", "/canary", false, &e);
    if (r < 0) {
        cli_report("%s", e.msg);
        return EXIT_TOOL_FAILED;
    }
    printf("A sandbox for uid %u, on the host's system directories:\n", geteuid());
    fflush(stdout);
    status = session_run(&s, &start);
    printf("%s: built, used and taken down in %.1f ms.\n",
           status == 0 ? "All as it should be" : "NOT as it should be",
           (double)(clock_mono() - began) / 1e6);
    return status;
}

static int run_canary(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct canary_options *o = options_;

    return o->inside ? run_probes() : launch_canary();
}

const struct verb verb_canary = {
    .name = "canary",
    .summary = "build a sandbox and show its isolation",
    .text = "Exit status: 0 means that everything which must work does, and nothing else.\n"
            "\n"
            "  sandboxer canary\n",
    OPTIONS(options, struct canary_options),
    .run = run_canary,
    .flags = VERB_COMMAND,
};
