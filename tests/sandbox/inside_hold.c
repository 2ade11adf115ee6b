/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that hold a socket, as plainly or as strangely as they can. */
#include "inside.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"

enum { STACK = 64 << 10, MANY = 10000 };

static void say_inode(int fd)
{
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        _exit(3);
    dprintf(1, "%llu\n", (unsigned long long)st.st_ino);
}

static void hold_new(void)
{
    say_inode(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

/* Until there is nobody who wants to know. */
static void wait_for_end(void)
{
    char c;

    while (read(0, &c, 1) > 0)
        ;
}

static void hold_plain(int n)
{
    hold_new();
}

/* n processes in all. */
static void hold_together(int n)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    for (int i = 1; i < n; i++)
        if (fork() == 0)
            return;
    say_inode(fd);
}

/* A process with n ancestors of its own. */
static void hold_below(int n)
{
    for (int i = 0; i < n; i++)
        if (fork() != 0)
            return;
    hold_new();
}

static int in_thread(void *unused)
{
    hold_new();
    wait_for_end();
    syscall(SYS_exit, 0);
    return 0;
}

/* A thread with a table of descriptors of its own. */
static void start_thread(void)
{
    static char stack[STACK] __attribute__((aligned(16)));

    if (clone(in_thread, stack + sizeof stack, CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD,
              NULL) < 0)
        _exit(3);
}

static void hold_in_thread(int n)
{
    start_thread();
}

/* The process looks as if it had ended. */
static void hold_without_leader(int n)
{
    start_thread();
    syscall(SYS_exit, 0);
}

static void hold_hidden(int n)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    hold_new();
}

/* Behind ten thousand other descriptors; n processes have them. */
static void hold_among_many(int n)
{
    struct rlimit files;

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    for (int i = 0; i < MANY; i++)
        if (dup(1) < 0)
            _exit(4);
    for (int i = 1; i < n; i++)
        if (fork() == 0)
            return;
    hold_new();
}

int hold(char **argv)
{
    static const struct {
        const char *name;
        void (*run)(int n);
    } ways[] = {
        { "plain", hold_plain },      { "together", hold_together },     { "below", hold_below },
        { "thread", hold_in_thread }, { "leader", hold_without_leader }, { "hidden", hold_hidden },
        { "many", hold_among_many },
    };

    for (size_t i = 0; i < COUNT_OF(ways); i++)
        if (strcmp(argv[0], ways[i].name) == 0) {
            ways[i].run((int)strtol(argv[1], NULL, 10));
            wait_for_end();
            return 0;
        }
    return 2;
}
