/* SPDX-License-Identifier: Apache-2.0 */
/* Filters that programs load: for their own system calls and for their sockets. Where a profile
 * allows them, the sandbox's filter asks PID 1 about each (SECCOMP_RET_USER_NOTIF), because their
 * machine code comes out of a budget of the whole machine (net.core.bpf_jit_limit).
 *
 * PID 1 decides by counting, and the kernel then carries the call out unchanged. PID 1 reads
 * nothing that the calling process could change, never blocks, and counts rarely: between two
 * counts of existing filters, every permission counts as one more filter, and after a count that
 * finds too many all calls are refused for a moment. */
#include "engine/init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"

/* Not in Debian 12's headers under musl. */
#ifndef SECCOMP_USER_NOTIF_FLAG_CONTINUE
#define SECCOMP_USER_NOTIF_FLAG_CONTINUE 1
#endif

enum {
    FILTERS_MAX = 256,        /* system call filters at the same time */
    SOCKET_FILTERS_MAX = 256, /* attached to sockets during the sandbox's life: their removal cannot
                                 be seen */
    COUNT_PAUSE_MS = 50,      /* between two counts of processes */
    THREADS_ROOM = 4096,
    STATUS_ROOM = 4096,
    NOTICE_ROOM = 512, /* newer kernels have longer ones */
};

static struct {
    int listener;
    int own;           /* filters of PID 1, which all processes inherit */
    uint32_t at_most;  /* upper bound of filters that programs loaded */
    uint32_t attached; /* to sockets so far */
    int64_t counted;   /* time of the last count */
} nested = { .listener = -1 };

/* Number of filters of a thread; -1 if it has exited, -2 if its status does not contain it. */
static int filters_of(const char *path)
{
    static const char label[] = "\nSeccomp_filters:\t";
    char text[STATUS_ROOM], *at;
    AUTO_CLOSE int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    uint64_t found;

    if (n <= 0)
        return -1;
    text[n] = '\0';
    at = strstr(text, label);
    if (!at)
        return -2;
    at += strlen(label);
    return str_to_u64((struct str){ at, strcspn(at, "\n") }, &found) && found < INT16_MAX
               ? (int)found
               : -2;
}

/* Filters of threads beyond those of PID 1. A thread whose status line is cut off by too many groups
 * counts as having the maximum. */
static uint32_t count_process_filters(pid_t pid)
{
    static char room[THREADS_ROOM] __attribute__((aligned(8)));
    struct numbers threads;
    uint32_t n = 0;
    uint64_t tid;
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    numbers_open(&threads, AT_FDCWD, path, room, sizeof room);
    while (numbers_next(&threads, &tid)) {
        int own;

        snprintf(path, sizeof path, "/proc/%d/task/%d/status", (int)pid, (int)tid);
        own = filters_of(path);
        n += own == -2 ? FILTERS_MAX : own > nested.own ? (uint32_t)(own - nested.own) : 0;
    }
    numbers_close(&threads);
    return n;
}

/* Counts filters per thread. A filter exists as long as a thread that uses it; shared filters are
 * counted several times, so this is an upper bound, except for permitted filters that are not
 * loaded yet: at most one per thread. */
static void count_filters(void)
{
    struct numbers walk;
    uint32_t n = 0;
    pid_t pid;

    pids_open(&walk);
    while ((pid = pids_next(&walk)))
        n += count_process_filters(pid);
    nested.at_most = n;
    nested.counted = clock_mono();
}

/* 0, or the errno that the call fails with. */
static int decide_call(int nr)
{
    if (nr == SYS_setsockopt) {
        if (nested.attached == SOCKET_FILTERS_MAX)
            return ENOMEM;
        nested.attached++;
        return 0;
    }
    if (nested.own < 0)
        return EINVAL; /* a kernel before 5.9, which does not report the number */
    if (nested.at_most >= FILTERS_MAX &&
        clock_mono() - nested.counted >= COUNT_PAUSE_MS * NS_PER_MS)
        count_filters();
    if (nested.at_most >= FILTERS_MAX)
        return ENOMEM;
    nested.at_most++;
    return 0;
}

void nested_keep(int listener)
{
    nested.listener = listener;
    nested.own = filters_of("/proc/self/status");
    if (listener >= 0)
        init_watch(listener);
}

bool nested_has(int fd)
{
    return fd >= 0 && fd == nested.listener;
}

void nested_serve(void)
{
    union {
        struct seccomp_notif notice;
        char room[NOTICE_ROOM];
    } asked;
    union {
        struct seccomp_notif_resp answer;
        char room[NOTICE_ROOM];
    } reply = { .room = "" };
    int error;

    /* Does not block: if the caller was killed meanwhile, the receive fails. */
    memset(&asked, 0, sizeof asked);
    if (syscall(SYS_ioctl, nested.listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) < 0)
        return;
    error = decide_call(asked.notice.data.nr);
    reply.answer.id = asked.notice.id;
    reply.answer.error = -error;
    reply.answer.flags = error ? 0 : (uint32_t)SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    syscall(SYS_ioctl, nested.listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
}
