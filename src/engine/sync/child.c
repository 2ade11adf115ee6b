/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sync/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/sync/report.h"
#include "lib/proc/confine.h"
#include "lib/tar/tree.h"

enum { REPORT_FD = 3, DIR_FD, TAR_FD, MANIFEST_IN_FD, MANIFEST_OUT_FD, FD_COUNT };

/* One for each level of a walk, and some for the current name. */
enum { OPEN_MAX_HERE = TREE_DEPTH_MAX + 32 };

#define PROGRESS_INTERVAL_NS (250 * NS_PER_MS)

enum { RECORD_MAX = 64 }; /* bytes of a manifest's record without its path */

/* Exits if the report cannot be written: without a reader, SIGPIPE would end the process anyway. */
static void report_sync_line(void *ctx, const struct sync_line *line)
{
    if (sync_report_line(REPORT_FD, line, NULL) < 0)
        _exit(1);
}

/* Reports progress often enough for a display. */
static void report_sync_moved(void *ctx, uint64_t bytes)
{
    static int64_t reported;
    int64_t now = clock_mono();

    if (!bytes || (reported && now - reported < PROGRESS_INTERVAL_NS))
        return;
    reported = now;
    if (sync_report_moved(REPORT_FD, bytes, NULL) < 0)
        _exit(1);
}

static int run_sync_job(const struct sync_job *job, struct sync_report *ret, struct err *e)
{
    struct sync_job_options o = job->options;

    o.line = report_sync_line;
    o.moved = report_sync_moved;
    o.pause = NULL;
    if (job->receive)
        return sync_receive(DIR_FD, TAR_FD, job->manifest_in, job->manifest_out, &o, ret, e);
    if (o.flags & SYNC_DRY_RUN)
        return sync_look(DIR_FD, job->manifest_in, &o, ret, e);
    return sync_send(DIR_FD, TAR_FD, job->manifest_out, &o, ret, e);
}

/* The limit of file sizes: a manifest may be larger than the files it describes; a stream that is
 * sent may be a file. */
static uint64_t sync_file_max(const struct sync_job *job)
{
    const uint64_t manifest = SYNC_NAMES_MAX + SYNC_ENTRIES_MAX * RECORD_MAX;
    uint64_t bytes = job->options.limits.bytes ? job->options.limits.bytes : SYNC_BYTES_DEFAULT;

    return !job->receive || bytes > UINT64_MAX - manifest ? UINT64_MAX : bytes + manifest;
}

static void __attribute__((noreturn)) exit_sync_child(int report, const struct sync_report_end *end)
{
    _exit(sync_report_end(report, end, NULL) < 0 ? 1 : 0);
}

static void __attribute__((noreturn)) run_sync_child(struct sync_job job, int report, pid_t parent)
{
    struct sync_report_end end = { 0 };
    struct sync_place place;

    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        _exit(1);
    if (job.find)
        end.r = job.find(&job, &end.e);
    if (end.r < 0)
        exit_sync_child(report, &end);
    if (job.receive) {
        sync_place_find(job.dir, &place);
        job.options.place = &place;
    }
    if (confine_fds((const int[FD_COUNT]){ -1, -1, -1, report, job.dir, job.tar, job.manifest_in,
                                           job.manifest_out },
                    FD_COUNT, NULL) < 0)
        _exit(1);
    job.tar = TAR_FD;
    job.manifest_in = job.manifest_in < 0 ? -1 : MANIFEST_IN_FD;
    job.manifest_out = job.manifest_out < 0 ? -1 : MANIFEST_OUT_FD;
    end.r = confine_enter(&(struct confine){ .parent = parent,
                                             .dir = DIR_FD,
                                             .file_max = sync_file_max(&job),
                                             .fds_max = OPEN_MAX_HERE,
                                             .become = true,
                                             .uid = job.uid,
                                             .gid = job.gid,
                                             .groups = job.groups,
                                             .n_groups = job.n_groups },
                          &end.e);
    if (end.r >= 0)
        end.r = run_sync_job(&job, &end.report, &end.e);
    exit_sync_child(REPORT_FD, &end);
}

int sync_child_fork(const struct sync_job *job, int report, pid_t *ret, struct err *e)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        return err_sys(e, "forking");
    if (pid == 0)
        run_sync_child(*job, report, parent);
    *ret = pid;
    return 0;
}
