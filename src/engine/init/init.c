/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/init/init.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/proc/caps.h"

enum { EVENTS = 32 };

static const struct init_options *options;
static int epoll_fd, signal_fd;

static void watch_fd(int fd, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.fd = fd };

    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void init_watch(int fd)
{
    watch_fd(fd, EPOLLIN);
}

void init_watch_end(int fd)
{
    watch_fd(fd, EPOLLRDHUP);
}

static void dispatch_fd(int fd)
{
    struct signalfd_siginfo info;
    struct proc *p;

    if (fd == signal_fd) {
        while (read(signal_fd, &info, sizeof info) > 0)
            ;
        starts_reap();
    } else if (nested_has(fd))
        nested_serve();
    else if (fd == INIT_LISTENER && options->listens)
        conns_accept();
    else if (conns_has(fd)) {
        if (conns_ready(fd))
            requests_read(options, fd);
    } else if (!owner_scans_receive(fd) && (p = procs_by_sync(fd)))
        starts_receive(p);
}

static void run_event_loop(void)
{
    struct epoll_event events[EVENTS];

    for (;;) {
        int n = epoll_wait(epoll_fd, events, EVENTS, starts_wait_ms(owner_scans_deadline()));

        for (int i = 0; i < n; i++)
            dispatch_fd(events[i].data.fd);
        starts_enforce();
        starts_report(options);
        owner_scans_enforce();
        owner_scans_answer();
    }
}

static int open_event_sources(struct err *e)
{
    sigset_t all;

    /* All signals are blocked: PID 1 reads the ones it needs from a descriptor. */
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return err_sys(e, "blocking signals");
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    signal_fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (signal_fd < 0 || epoll_fd < 0)
        return err_sys(e, "opening event sources");
    conns_init(epoll_fd);
    init_watch(signal_fd);
    return 0;
}

/* Children of PID 1 count, too; a few are reserved, so that file operations work in a full
 * sandbox. */
static int limit_processes(struct err *e)
{
    enum { OWN_PROCESSES = 4 };
    struct rlimit all;

    if (!options->pids)
        return 0;
    if (getrlimit(RLIMIT_NPROC, &all) < 0)
        return err_sys(e, "reading RLIMIT_NPROC");
    if (all.rlim_cur > options->pids + OWN_PROCESSES) /* RLIM_INFINITY is the largest value */
        all.rlim_cur = options->pids + OWN_PROCESSES;
    return setrlimit(RLIMIT_NPROC, &all) < 0 ? err_sys(e, "setting RLIMIT_NPROC") : 0;
}

/* Confines PID 1 itself like the workload. */
static int confine_init(struct err *e)
{
    uint64_t keep = caps_permitted();
    int r, listener;

    /* Keeps processes inside from reading PID 1's memory, environment or descriptors. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(e, "setting process attributes");
    /* PID 1 keeps its capabilities; the bounding set limits all programs from here on. */
    r = caps_bound(keep, options->caps, e);
    if (r >= 0)
        r = caps_ambient(0, e);
    if (r >= 0)
        r = caps_set(keep, 0, e);
    if (r >= 0)
        r = landlock_enter(e);
    if (r >= 0)
        r = limit_processes(e);
    if (r >= 0)
        r = filter_load(options->kernel, &listener, e);
    if (r >= 0 && listener >= 0)
        nested_keep(listener);
    return r;
}

int init_run(const struct init_options *o)
{
    struct err e;

    options = o;
    setsid();
    requests_keep(o->listeners);
    groups_keep(o->prepared);
    usage_keep();
    oom_keep();
    /* Without confinement there is no sandbox; nothing has been started yet, so exiting is safe. */
    if (open_event_sources(&e) < 0 || confine_init(&e) < 0) {
        if (conns_add(INIT_CONTROL))
            conns_fail(INIT_CONTROL, 0, "confine", &e);
        return 125;
    }
    if (!conns_add(INIT_CONTROL))
        return 125;
    if (o->listens) {
        if (listen(INIT_LISTENER, INIT_CONNECTIONS_MAX) < 0)
            return 125;
        init_watch(INIT_LISTENER);
    }
    run_event_loop();
    return 125;
}
