/* SPDX-License-Identifier: Apache-2.0 */
/* What tests run inside a sandbox when a shell is too slow or cannot do it: inside VERB
 * [ARGUMENT…]. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "inside.h"
#include "lib/ipc/control.h"

static char state_of(const char *pid)
{
    char path[300], text[512] = "";
    AUTO_CLOSE int fd = -1;
    const char *rest;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return 0;
    rest = strrchr(text, ')');
    return rest && rest[1] ? rest[2] : 0;
}

/* Processes and zombies, without PID 1 and ourselves: "2 0". */
static int count_processes(char **argv)
{
    DIR *proc = opendir("/proc");
    int processes = 0, zombies = 0;
    struct dirent *d;

    if (!proc)
        return 1;
    while ((d = readdir(proc))) {
        unsigned long pid = strtoul(d->d_name, NULL, 10); /* 0 for what is no process */
        char state;

        if (pid <= 1 || (pid_t)pid == getpid())
            continue;
        state = state_of(d->d_name);
        processes += state != 0;
        zombies += state == 'Z';
    }
    closedir(proc);
    printf("%d %d\n", processes, zombies);
    return 0;
}

/* A tree that does what it can to get away: sessions of its own, parents that leave, no signal that
 * it listens to. Says "ready" when the plain child, the session leader and the daemon stay. */
static void stay(int ready)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (write(ready, "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void leave_as_daemon(int ready)
{
    setsid();
    if (fork() != 0)
        _exit(0);
    if (fork() != 0)
        _exit(0);
    setsid();
    stay(ready);
}

static int escape_parents(char **argv)
{
    int ends[2];
    char byte;

    signal(SIGTERM, SIG_IGN);
    if (pipe(ends) < 0)
        return 1;
    if (fork() == 0)
        stay(ends[1]);
    if (fork() == 0) {
        setsid();
        stay(ends[1]);
    }
    if (fork() == 0)
        leave_as_daemon(ends[1]);
    wait(NULL); /* the daemon's first parent: of the three, only it ends */
    for (int i = 0; i < 3; i++)
        if (read(ends[0], &byte, 1) != 1)
            return 1;
    dprintf(1, "ready\n");
    for (;;)
        pause();
}

static int fork_bomb(char **argv)
{
    signal(SIGTERM, SIG_IGN);
    dprintf(1, "ready\n");
    for (;;)
        if (fork() < 0)
            usleep(200);
    return 0;
}

/* Swaps two names for ever: what a path leads to changes between any two looks. */
static int swap_names(char **argv)
{
    dprintf(1, "ready\n");
    for (;;)
        if (syscall(SYS_renameat2, AT_FDCWD, argv[0], AT_FDCWD, argv[1], 2 /* RENAME_EXCHANGE */) <
                0 &&
            errno != ENOENT)
            return 1;
    return 0;
}

/* How many bytes PID 1 answers to a ping there; the negative errno if nobody can be reached. */
static int ping(const struct sockaddr_un *to, socklen_t n)
{
    AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct control_head m = { CONTROL_MAGIC, CONTROL_VERSION, CONTROL_PING, 1, sizeof m };
    ssize_t got;

    if (fd < 0 || connect(fd, (const struct sockaddr *)to, n) < 0)
        return -errno;
    if (send(fd, &m, sizeof m, MSG_NOSIGNAL) < 0)
        return 0;
    got = recv(fd, &m, sizeof m, 0);
    return got < 0 ? 0 : (int)got;
}

/* A control socket by path, and by the same abstract name. */
static int reach(char **argv)
{
    struct sockaddr_un path = { .sun_family = AF_UNIX }, abstract = path;
    size_t n = strlen(argv[0]);
    int by_path, by_name;

    memcpy(path.sun_path, argv[0], n + 1);
    memcpy(abstract.sun_path + 1, argv[0], n);
    by_path = ping(&path, sizeof path);
    by_name = ping(&abstract, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n));
    printf("%d %d\n", by_path, by_name);
    return 0;
}

/* Open descriptors, ours for the directory not counted. */
static int count_own_descriptors(char **argv)
{
    int n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    printf("%d\n", n);
    return 0;
}

/* Blocked and ignored signals, as /proc/self/status has them. */
static int show_signals(char **argv)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "re");

    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6))
            fputs(line, stdout);
    return f ? fclose(f) : 1;
}

/* Children that use 5 ms of a processor each, and whose end this process ignores: no parent has
 * their times afterwards. Says "done" when the last one has ended. */
static int work_unnoticed(char **argv)
{
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 40; i++)
        if (fork() == 0) {
            while (clock() < CLOCKS_PER_SEC / 200)
                ;
            _exit(0);
        }
    while (wait(NULL) >= 0 || errno == EINTR)
        ;
    puts("done");
    return 0;
}

static const struct {
    const char *name;
    int arguments;
    int (*run)(char **argv);
} verbs[] = {
    { "count", 0, count_processes }, { "escape", 0, escape_parents },
    { "bomb", 0, fork_bomb },        { "swap", 2, swap_names },
    { "reach", 1, reach },           { "descriptors", 0, count_own_descriptors },
    { "signals", 0, show_signals },  { "ask", 4, net_ask },
    { "send", 2, net_send },         { "sockets", 0, net_sockets },
    { "loopback", 0, net_loopback }, { "take", 0, net_take },
    { "change", 0, net_change },     { "hold", 2, hold },
    { "work", 0, work_unnoticed },
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < COUNT_OF(verbs); i++)
        if (argc == 2 + verbs[i].arguments && strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argv + 2);
    fprintf(stderr, "inside: there is no such verb with so many arguments\n");
    return 2;
}
