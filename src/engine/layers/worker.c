/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/worker.h"

#include <linux/ioprio.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/own.h"
#include "lib/ipc/channel.h"
#include "lib/proc/caps.h"
#include "lib/proc/confine.h"
#include "lib/proc/idmap.h"
#include "lib/tar/tree.h"

/* Numbers of the descriptors after confinement. */
enum { SOCKET_FD = 3, STORAGE_FD, FIRST_FD, FD_COUNT = FIRST_FD + LAYERS_FDS_MAX };

/* For two tree walks at the same time, or two stacks to compare. */
enum { OPEN_MAX_HERE = 2 * TREE_DEPTH_MAX + 2 * LAYERS_STACK_MAX + 32 };

enum { LEAST_PRIORITY = 19 };

#define PROGRESS_INTERVAL_NS (100 * NS_PER_MS)

/* The largest output about an archive: struct archive_parts, or a manifest. */
enum { WORD_MAX = 2 << 20 };

/* To read, write, chown and mark files of many owners. */
static const uint64_t kept_caps =
    CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID);

static layer_job_fn *const jobs[LAYERS_KIND_COUNT_] = {
    [LAYERS_LIST] = layer_worker_list,         [LAYERS_SWEEP] = layer_worker_sweep,
    [LAYERS_REMOVE] = layer_worker_remove,     [LAYERS_UNPACK] = layer_worker_unpack,
    [LAYERS_DIGEST] = layer_worker_digest,     [LAYERS_CAPTURE] = layer_worker_capture,
    [LAYERS_DIFF] = layer_worker_diff,         [LAYERS_FLATTEN] = layer_worker_flatten,
    [LAYERS_COMPARE] = layer_worker_compare,   [LAYERS_EXPORT] = layer_worker_export,
    [LAYERS_MANIFEST] = layer_worker_manifest, [LAYERS_IMPORT] = layer_worker_import,
    [LAYERS_TAKE] = layer_worker_take,         [LAYERS_CLEAR] = layer_worker_clear,
    [LAYERS_SIFT] = layer_worker_sift,
};

/* --- replies --- */

/* Exits because the job was cancelled. */
static void __attribute__((noreturn)) abandon_job(struct layer_worker *k)
{
    if (k->unfinished)
        staging_done(k->unfinished);
    _exit(1);
}

void layer_worker_check_cancelled(struct layer_worker *k)
{
    struct pollfd end = { .fd = k->sock, .events = POLLRDHUP };

    if (poll(&end, 1, 0) > 0 && (end.revents & (POLLRDHUP | POLLHUP | POLLERR)))
        abandon_job(k);
}

static void send_job_reply(struct layer_worker *k, struct layers_said *reply, enum layers_word word)
{
    layer_worker_check_cancelled(k);
    reply->magic = LAYERS_MAGIC;
    reply->version = LAYERS_VERSION;
    reply->word = word;
    if (ipc_send(k->sock, reply, sizeof *reply, NULL, 0, NULL) < 0)
        abandon_job(k);
}

void layer_worker_report_progress(struct layer_worker *k, uint64_t bytes, uint64_t entries)
{
    struct layers_said reply = { .bytes = bytes, .entries = entries };
    int64_t now = clock_mono();

    if (k->reported_ns && now - k->reported_ns < PROGRESS_INTERVAL_NS)
        return;
    k->reported_ns = now;
    send_job_reply(k, &reply, LAYERS_PROGRESS);
}

void layer_worker_on_progress(void *ctx, uint64_t bytes, uint64_t entries)
{
    layer_worker_report_progress(ctx, bytes, entries);
}

void layer_worker_report_line(struct layer_worker *k, const char *text)
{
    struct layers_said reply = { 0 };

    if (str_copy(str_from(text), reply.text, sizeof reply.text))
        send_job_reply(k, &reply, LAYERS_LINE);
}

void layer_worker_report_taken(struct layer_worker *k)
{
    struct layers_said reply = { 0 };

    fault_point("layers.taken");
    send_job_reply(k, &reply, LAYERS_TAKEN);
}

/* --- confinement --- */

/* The directories among the job's descriptors stay readable. The data of a sandbox may have sparse
 * files of any size: data is counted as it is copied. Files from outside may not be longer than the
 * byte limit. */
static int confine_to_storage(struct layer_worker *k, struct err *e)
{
    const struct layers_job *j = &k->job;
    bool sparse = j->kind == LAYERS_CAPTURE || j->kind == LAYERS_FLATTEN;
    int r, dirs[LAYERS_FDS_MAX];
    struct confine c = { .parent = getppid(),
                         .dir = STORAGE_FD,
                         .caps = kept_caps,
                         .file_max = sparse         ? UINT64_MAX
                                     : j->bytes_max ? j->bytes_max
                                                    : TREE_BYTES_DEFAULT,
                         .fds_max = OPEN_MAX_HERE,
                         .nodes = true,
                         .readable = dirs };
    struct stat st;

    for (int i = 0; i < LAYERS_FDS_MAX; i++)
        if (k->fds[i] >= 0 && fstat(k->fds[i], &st) == 0 && S_ISDIR(st.st_mode))
            dirs[c.n_readable++] = k->fds[i];
    r = confine_enter(&c, e);
    return r < 0 ? r : storage_open(&k->storage, STORAGE_FD, e);
}

/* A job that only reads its descriptors gets no privileges at all. */
static int confine_worker(struct layer_worker *k, struct err *e)
{
    const struct confine none = { .parent = getppid(), .dir = -1, .file_max = WORD_MAX };

    if (unshare(CLONE_NEWNET | CLONE_NEWIPC) < 0)
        return err_sys(e, "unsharing the network namespace");
    return layers_kind_without_storage(k->job.kind) ? confine_enter(&none, e)
                                                    : confine_to_storage(k, e);
}

/* --- the one job --- */

static int place_job_fds(struct layer_worker *k, int sock, int storage, struct ipc_fds *got,
                         struct err *e)
{
    int fds[FD_COUNT] = { -1, -1, STDERR_FILENO, sock,
                          layers_kind_without_storage(k->job.kind) ? -1 : storage };
    int r;

    for (int i = 0; i < LAYERS_FDS_MAX; i++)
        fds[FIRST_FD + i] = (size_t)i < got->n ? got->fd[i] : -1;
    r = confine_fds(fds, FD_COUNT, e);
    for (int i = 0; i < LAYERS_FDS_MAX; i++)
        k->fds[i] = (size_t)i < got->n ? FIRST_FD + i : -1;
    k->sock = SOCKET_FD;
    got->n = 0; /* closed or moved by now */
    return r;
}

static int await_go(struct layer_worker *k, struct err *e)
{
    struct layers_said reply;
    ssize_t n;

    if (!layers_kind_waits(k->job.kind))
        return 0;
    n = ipc_recv(k->sock, &reply, sizeof reply, NULL, e);
    if (n == 0)
        abandon_job(k);
    if (n < 0 || layers_said_check(&reply, (size_t)n, e) < 0 || reply.word != LAYERS_GO)
        return err_set(e, ERR_INVALID, "sandboxer-layers expected GO");
    return 0;
}

static int run_job(struct layer_worker *k, struct err *e)
{
    struct layers_said ready = { 0 };
    int r = confine_worker(k, e);

    if (r >= 0 && k->job.kind == LAYERS_CAPTURE)
        r = layer_worker_capture_prepare(k, e);
    if (r < 0)
        return r;
    send_job_reply(k, &ready, LAYERS_READY);
    r = await_go(k, e);
    fault_point("layers.begin");
    return r < 0 ? r : jobs[k->job.kind](k, e);
}

/* Lowers CPU and I/O priority; failures are ignored. */
static void lower_priority(void)
{
    const struct sched_param none = { 0 };

    (void)setpriority(PRIO_PROCESS, 0, LEAST_PRIORITY);
    (void)sched_setscheduler(0, SCHED_IDLE, &none);
    (void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

/* Preparations before confinement: afterwards the decompression program cannot be found. */
static layer_job_fn *const preparations[LAYERS_KIND_COUNT_] = {
    [LAYERS_UNPACK] = layer_worker_unpack_prepare,
    [LAYERS_MANIFEST] = layer_worker_archive_prepare,
    [LAYERS_IMPORT] = layer_worker_archive_prepare,
};

int layer_worker_run(int sock, int storage, bool untrusted)
{
    static struct layer_worker k;
    struct ipc_fds got = { .n = 0 };
    struct err *e = &k.done.err;
    bool many = true; /* subordinate ids, which own a plain user's layers */
    ssize_t n;
    int r;

    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    k = (struct layer_worker){ .sock = sock,
                               .box = -1,
                               .ahead = -1,
                               .storage = STORAGE_NONE,
                               .staging = STAGING_NONE,
                               .decompress = DECOMPRESS_NONE };
    n = ipc_recv(sock, &k.job, sizeof k.job, &got, e);
    if (n == 0)
        return 0; /* cancelled before the job was sent */
    r = n < 0 ? (int)n : layers_job_check(&k.job, (size_t)n, got.n, e);
    if (r >= 0 && (k.job.flags & LAYERS_IDLE))
        lower_priority();
    if (r >= 0 && geteuid() != 0)
        r = idmap_become_root(&many, e);
    k.one_identity = !many;
    if (r >= 0)
        r = place_job_fds(&k, sock, storage, &got, e);
    if (r >= 0 && untrusted)
        r = layer_worker_check_sources(&k, STORAGE_FD, e);
    if (r >= 0 && preparations[k.job.kind])
        r = preparations[k.job.kind](&k, e);
    if (r >= 0)
        r = run_job(&k, e);
    decompress_end(&k.decompress);
    k.done.r = r;
    staging_done(&k.staging);
    fault_point("layers.done");
    send_job_reply(&k, &k.done, LAYERS_DONE);
    drop_fd(&k.box);
    storage_done(&k.storage);
    ipc_fds_done(&got);
    return 0;
}
