/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/control.h"
#include "daemon/worker.h"
#include "lib/ipc/channel.h"

struct job_result {
    int32_t r;
    struct err err;
};

/* Per kind: its name in errors, whether its child becomes a program, and how many may be starting
 * at the same time. */
static const struct {
    const char *name;
    bool is_program;
    size_t most;
} kinds[MONITOR_KIND_COUNT_] = {
    [MONITOR_LAUNCHER] = { "starting sandboxer-launch", true, 8 },
    [MONITOR_EGRESS] = { "starting sandboxer-egress", true, 32 },
    [MONITOR_LAYER_WORKER] = { "starting sandboxer-layers", true, LAYER_WORKERS_MAX },
    [MONITOR_FETCH] = { "starting sandboxer-fetch", true, 4 },
    [MONITOR_HEADERS] = { "reading hub.headers_file", false, 4 },
    [MONITOR_CERTIFICATE] = { "reading the domain's certificate", false, 4 },
    [MONITOR_GRANT] = { "opening the workspace", false, SUPERVISOR_GRANTS_MAX },
    [MONITOR_CHECK] = { "opening the workspace", false, SUPERVISOR_GRANTS_MAX },
    [MONITOR_REMOVE_GRANT] = { "removing a workspace's record", false, 16 },
    [MONITOR_MOUNTS] = { "opening the mounts", false, SUPERVISOR_GRANTS_MAX },
};

/* A child has copies of the monitor's descriptors until it becomes a program, which gets its own
 * from spawn_exec(), or ends. It does not outlive the monitor with them. */
static void __attribute__((noreturn)) run_job(int channel, job_fn *run, const void *ctx)
{
    struct job_result result = { 0 };
    AUTO_CLOSE int fd = -1;

    result.r = run(ctx, &channel, &fd, &result.err);
    _exit(ipc_send(channel, &result, sizeof result, &fd, fd < 0 ? 0 : 1, NULL) < 0 ? 1 : 0);
}

int jobs_start(struct jobs *all, enum monitor_kind kind, uint64_t id, job_fn *run, const void *ctx,
               pid_t *ret, struct err *e)
{
    AUTO_CLOSE int ours = -1, theirs = -1;
    pid_t parent = getpid(), pid;
    size_t alike = 0;
    int pair[2], r;

    for (size_t i = 0; i < all->n; i++)
        alike += all->job[i].kind == kind;
    if (all->n == JOBS_MAX || alike >= kinds[kind].most)
        return err_set(e, ERR_BUSY,
                       "%s: %zu such requests are under way, of at most %zu; try again later",
                       kinds[kind].name, alike, kinds[kind].most);
    r = ipc_pair(pair, e);
    if (r < 0)
        return r;
    ours = pair[0];
    theirs = pair[1];
    if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
        return err_sys(e, "preparing the channel of a job");
    pid = fork();
    if (pid < 0)
        return err_sys(e, "%s: forking", kinds[kind].name);
    if (pid == 0) {
        if (!kinds[kind].is_program &&
            (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent))
            _exit(1);
        run_job(theirs, run, ctx);
    }
    all->job[all->n++] = (struct job){ .id = id,
                                       .kind = kind,
                                       .pid = pid,
                                       .channel = take_fd(&ours),
                                       .deadline = clock_mono() + monitor_request_deadline_ns() };
    *ret = pid;
    return 0;
}

size_t jobs_poll(const struct jobs *all, struct pollfd *to)
{
    size_t n = 0;

    for (size_t i = 0; i < all->n; i++)
        if (all->job[i].channel >= 0)
            to[n++] = (struct pollfd){ .fd = all->job[i].channel, .events = POLLIN };
    return n;
}

int64_t jobs_deadline(const struct jobs *all)
{
    int64_t first = 0;

    for (size_t i = 0; i < all->n; i++)
        if (all->job[i].channel >= 0 && (!first || all->job[i].deadline < first))
            first = all->job[i].deadline;
    return first;
}

/* True if the job is settled: *r, *e and *fd are its result. */
static bool read_job_result(const struct job *j, int *r, struct err *e, int *fd)
{
    struct ipc_fds got AUTO(ipc_fds_done) = { .n = 0 };
    struct job_result result;
    ssize_t n = ipc_recv(j->channel, &result, sizeof result, &got, e);

    if (n == -(ssize_t)ERR_BUSY)
        return false;
    if (n == (ssize_t)sizeof result) {
        *r = result.r;
        *e = result.err;
        if (got.n)
            *fd = take_fd(&got.fd[0]);
    } else if (n == 0 && kinds[j->kind].is_program) {
        *r = 0; /* execve() closed the channel */
    } else {
        *r = err_set(e, ERR_UPSTREAM, "%s: the process died", kinds[j->kind].name);
    }
    return true;
}

static bool is_late(struct job *j, int *r, struct err *e)
{
    if (clock_mono() < j->deadline)
        return false;
    if (j->pid > 0)
        kill(j->pid, SIGKILL);
    j->lingers = j->pid > 0;
    *r = err_set(e, ERR_TIMEOUT, "%s took longer than %lld s and was given up", kinds[j->kind].name,
                 (long long)(monitor_request_deadline_ns() / NS_PER_S));
    return true;
}

void jobs_run(struct jobs *all, job_answer_fn *answer, void *user)
{
    for (size_t i = 0; i < all->n; i++) {
        struct job *j = &all->job[i];
        AUTO_CLOSE int fd = -1;
        struct err e = { 0 };
        int r = 0;

        if (j->channel < 0 || (!read_job_result(j, &r, &e, &fd) && !is_late(j, &r, &e)))
            continue;
        drop_fd(&j->channel);
        if (r >= 0)
            j->deadline = 0; /* the program keeps running, but the job is done */
        answer(user, j, r, &e, fd);
    }
    for (size_t i = 0; i < all->n;) {
        struct job *j = &all->job[i];

        if (j->channel < 0 && (j->pid == 0 || (kinds[j->kind].is_program && j->deadline == 0)))
            *j = all->job[--all->n];
        else
            i++;
    }
}

void jobs_ended(struct jobs *all, pid_t pid, job_answer_fn *answer, void *user)
{
    for (size_t i = 0; i < all->n; i++) {
        struct job *j = &all->job[i];

        if (j->pid != pid)
            continue;
        j->pid = 0;
        if (j->lingers) {
            j->lingers = false;
            answer(user, j, 0, NULL, -1);
        }
    }
}
