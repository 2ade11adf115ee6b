#include "mirror/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "mirror/report.h"
#include "proc/confine.h"
#include "proc/spawn.h"
#include "tree/tree.h"

enum { REPORT_FD = 3, DIR_FD, TAR_FD, MANIFEST_IN_FD, MANIFEST_OUT_FD, FD_COUNT };

/* One for each level of a walk, and those of a name that is worked on. */
enum { OPEN_MAX_HERE = TREE_DEPTH_MAX + 32 };

#define TELL_NS (250 * NS_PER_MS)

enum { RECORD_MAX = 64 }; /* bytes of a manifest's record without its path */

/* A report that nobody reads is no reason to go on: the next line ends us by SIGPIPE anyway. */
static void send_line(void *ctx, const struct mirror_line *line)
{
    (void)ctx;
    if (mirror_report_line(REPORT_FD, line, NULL) < 0)
        _exit(1);
}

/* Often enough for somebody who looks on. */
static void send_moved(void *ctx, uint64_t bytes)
{
    static int64_t told;
    int64_t now = clock_mono();

    (void)ctx;
    if (!bytes || (told && now - told < TELL_NS))
        return;
    told = now;
    if (mirror_report_moved(REPORT_FD, bytes, NULL) < 0)
        _exit(1);
}

static int work(const struct mirror_job *job, struct mirror_report *ret, struct err *e)
{
    struct mirror_options o = job->options;

    o.line = send_line;
    o.moved = send_moved;
    o.pause = NULL;
    if (job->receive)
        return mirror_receive(DIR_FD, TAR_FD, job->manifest_in, job->manifest_out, &o, ret, e);
    return mirror_send(DIR_FD, TAR_FD, job->manifest_out, &o, ret, e);
}

/* A stream may be a file, and a manifest may be larger than what it describes. */
static uint64_t largest_file(const struct mirror_job *job)
{
    const uint64_t manifest = MIRROR_NAMES_MAX + MIRROR_ENTRIES_MAX * RECORD_MAX;
    uint64_t bytes = job->options.limits.bytes ? job->options.limits.bytes : MIRROR_BYTES_DEFAULT;

    return !job->receive || bytes > UINT64_MAX - manifest ? UINT64_MAX : bytes + manifest;
}

static int enter(const struct mirror_job *job, pid_t parent, struct err *e)
{
    const struct confine c = { .parent = parent,
                               .dir = DIR_FD,
                               .file_max = largest_file(job),
                               .fds_max = OPEN_MAX_HERE,
                               .become = true,
                               .uid = job->uid,
                               .gid = job->gid,
                               .groups = job->groups,
                               .n_groups = job->n_groups };

    return confine_enter(&c, e);
}

static void __attribute__((noreturn)) end_child(int report, const struct mirror_report_end *end)
{
    _exit(mirror_report_end(report, end, NULL) < 0 ? 1 : 0);
}

static void __attribute__((noreturn)) run(struct mirror_job job, int report, pid_t parent)
{
    struct mirror_report_end end = { 0 };
    struct mirror_place place;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        _exit(1);
    if (job.find)
        end.r = job.find(&job, &end.e);
    if (end.r < 0)
        end_child(report, &end);
    if (job.receive) {
        mirror_place_find(job.dir, &place);
        job.options.place = &place;
    }
    if (confine_fds((const int[FD_COUNT]){ -1, -1, -1, report, job.dir, job.tar, job.manifest_in,
                                           job.manifest_out },
                    FD_COUNT, NULL) < 0)
        _exit(1);
    job.tar = TAR_FD;
    job.manifest_in = job.manifest_in < 0 ? -1 : MANIFEST_IN_FD;
    job.manifest_out = job.manifest_out < 0 ? -1 : MANIFEST_OUT_FD;
    end.r = enter(&job, parent, &end.e);
    if (end.r >= 0)
        end.r = work(&job, &end.report, &end.e);
    end_child(REPORT_FD, &end);
}

int mirror_child_fork(const struct mirror_job *job, int report, pid_t *ret, struct err *e)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        return err_sys(e, "forking");
    if (pid == 0)
        run(*job, report, parent);
    *ret = pid;
    return 0;
}

int mirror_child_start(const struct mirror_job *job, struct mirror_child *ret, struct err *e)
{
    AUTO_CLOSE int from = -1, to = -1;
    pid_t pid;
    int fds[2], r;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_sys(e, "making a pipe");
    from = fds[0];
    to = fds[1];
    r = mirror_child_fork(job, to, &pid, e);
    if (r < 0)
        return r;
    *ret = (struct mirror_child){ .pid = pid, .report = take_fd(&from) };
    return 0;
}

static int read_report(const struct mirror_child *c, struct mirror_report_reader *r, struct err *e)
{
    char bytes[4096];

    for (;;) {
        ssize_t n = read(c->report, bytes, sizeof bytes);
        int fed;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, "reading the report of the mirroring process");
        if (n == 0)
            return 0;
        fed = mirror_report_feed(r, (struct str){ bytes, (size_t)n }, e);
        if (fed < 0)
            return fed;
    }
}

int mirror_child_wait(struct mirror_child *c, mirror_line_fn *line, void *ctx,
                      struct mirror_report *ret, struct err *e)
{
    struct mirror_report_reader reader;
    int r;

    *ret = (struct mirror_report){ 0 };
    mirror_report_reader_init(&reader, line, ctx);
    r = read_report(c, &reader, e);
    mirror_child_end(c);
    if (r < 0)
        return r;
    if (!reader.ended)
        return err_set(e, ERR_BUG, "the mirroring process died without a word");
    *ret = reader.end.report;
    if (reader.end.r < 0 && e)
        *e = reader.end.e;
    return reader.end.r;
}

void mirror_child_end(struct mirror_child *c)
{
    int status;

    drop_fd(&c->report);
    if (c->pid <= 0)
        return;
    kill(c->pid, SIGKILL); /* after its last word there is nothing that it could still do */
    (void)spawn_wait(c->pid, &status, NULL);
    c->pid = 0;
}
