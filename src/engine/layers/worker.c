#include "layers/keeper.h"

#include <errno.h>
#include <fcntl.h>
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
#include "base/hook.h"
#include "base/own.h"
#include "ipc/channel.h"
#include "proc/caps.h"
#include "proc/confine.h"
#include "proc/idmap.h"
#include "tree/tree.h"

/* Where descriptors are once it is confined. */
enum { SOCKET_FD = 3, STORAGE_FD, FIRST_FD, FD_COUNT = FIRST_FD + LAYERS_FDS_MAX };

/* Two trees are walked at the same time, or two stacks are compared. */
enum { OPEN_MAX_HERE = 2 * TREE_DEPTH_MAX + 2 * LAYERS_STACK_MAX + 32 };

enum { LEAST_PRIORITY = 19 };

#define TELL_NS (100 * NS_PER_MS)

/* What is said of an archive is no longer: struct parts, or a manifest. */
enum { WORD_MAX = 2 << 20 };

/* What trees of many owners take: to read, write, own and mark what is anybody's. */
static const uint64_t kept_caps =
    CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID);

static keeper_job_fn *const jobs[LAYERS_KIND_COUNT_] = {
    [LAYERS_LIST] = keeper_list,         [LAYERS_SWEEP] = keeper_sweep,
    [LAYERS_REMOVE] = keeper_remove,     [LAYERS_UNPACK] = keeper_unpack,
    [LAYERS_MEASURE] = keeper_measure,   [LAYERS_CAPTURE] = keeper_capture,
    [LAYERS_DIFF] = keeper_diff,         [LAYERS_FLATTEN] = keeper_flatten,
    [LAYERS_COMPARE] = keeper_compare,   [LAYERS_EXPORT] = keeper_export,
    [LAYERS_MANIFEST] = keeper_manifest, [LAYERS_IMPORT] = keeper_import,
    [LAYERS_TAKE] = keeper_take,         [LAYERS_CLEAR] = keeper_clear,
    [LAYERS_SIFT] = keeper_sift,
};

/* --- saying --- */

/* Whatever we do is for nobody. */
static void __attribute__((noreturn)) give_up(struct keeper *k)
{
    if (k->growing)
        growth_done(k->growing);
    _exit(1);
}

static void say(struct keeper *k, struct layers_said *said, enum layers_word word)
{
    said->magic = LAYERS_MAGIC;
    said->version = LAYERS_VERSION;
    said->word = word;
    if (ipc_send(k->sock, said, sizeof *said, NULL, 0, NULL) < 0)
        give_up(k);
}

static bool is_cancelled(const struct keeper *k)
{
    struct pollfd end = { .fd = k->sock };

    return poll(&end, 1, 0) > 0 && (end.revents & (POLLHUP | POLLERR));
}

void keeper_wanted(struct keeper *k)
{
    if (is_cancelled(k))
        give_up(k);
}

void keeper_progress(struct keeper *k, uint64_t bytes, uint64_t entries)
{
    struct layers_said said = { .bytes = bytes, .entries = entries };
    int64_t now = clock_mono();

    if (k->told_ns && now - k->told_ns < TELL_NS)
        return;
    k->told_ns = now;
    keeper_wanted(k);
    say(k, &said, LAYERS_PROGRESS);
}

void keeper_line(struct keeper *k, const char *text)
{
    struct layers_said said = { 0 };

    if (str_copy(str_from(text), said.text, sizeof said.text))
        say(k, &said, LAYERS_LINE);
}

void keeper_taken(struct keeper *k)
{
    struct layers_said said = { 0 };

    hook_point("layers.taken");
    say(k, &said, LAYERS_TAKEN);
}

/* --- being confined --- */

/* A plain user's layers belong to its subordinate ids: with them, it is root of its own. */
static int become_owner(struct keeper *k, struct err *e)
{
    bool many = true;
    int r = geteuid() == 0 ? 0 : idmap_become_root(&many, e);

    k->one_identity = !many;
    return r;
}

/* Directories among the job's descriptors are there to be read. */
static size_t readable_dirs(const struct keeper *k, int ret[static LAYERS_FDS_MAX])
{
    struct stat st;
    size_t n = 0;

    for (int i = 0; i < LAYERS_FDS_MAX; i++)
        if (k->fds[i] >= 0 && fstat(k->fds[i], &st) == 0 && S_ISDIR(st.st_mode))
            ret[n++] = k->fds[i];
    return n;
}

/* What a sandbox wrote may be as long as it likes, if most of it is holes: its data is counted as
 * it is copied. What came from outside may not be made longer than it may hold. */
static uint64_t longest_file(const struct layers_job *j)
{
    if (j->kind == LAYERS_CAPTURE || j->kind == LAYERS_FLATTEN)
        return UINT64_MAX;
    return j->bytes_max ? j->bytes_max : TREE_BYTES_DEFAULT;
}

/* What only reads what it was given has no rights at all. */
static int enter_aside(struct err *e)
{
    const struct confine c = { .parent = getppid(), .dir = -1, .file_max = WORD_MAX };

    return confine_enter(&c, e);
}

static int enter_storage(struct keeper *k, struct err *e)
{
    int dirs[LAYERS_FDS_MAX];
    struct confine c = { .parent = getppid(),
                         .dir = STORAGE_FD,
                         .caps = kept_caps,
                         .file_max = longest_file(&k->job),
                         .fds_max = OPEN_MAX_HERE,
                         .nodes = true,
                         .readable = dirs };
    int r;

    c.n_readable = readable_dirs(k, dirs);
    r = confine_enter(&c, e);
    return r < 0 ? r : storage_open(&k->storage, STORAGE_FD, e);
}

static int enter(struct keeper *k, struct err *e)
{
    if (unshare(CLONE_NEWNET | CLONE_NEWIPC) < 0)
        return err_sys(e, "leaving the network");
    return layers_kind_aside(k->job.kind) ? enter_aside(e) : enter_storage(k, e);
}

/* --- the one job --- */

static int place_fds(struct keeper *k, int sock, int storage, struct ipc_fds *got, struct err *e)
{
    int fds[FD_COUNT] = { -1, -1, STDERR_FILENO, sock,
                          layers_kind_aside(k->job.kind) ? -1 : storage };
    int r;

    for (int i = 0; i < LAYERS_FDS_MAX; i++)
        fds[FIRST_FD + i] = (size_t)i < got->n ? got->fd[i] : -1;
    r = confine_fds(fds, FD_COUNT, e);
    for (int i = 0; i < LAYERS_FDS_MAX; i++)
        k->fds[i] = (size_t)i < got->n ? FIRST_FD + i : -1;
    k->sock = SOCKET_FD;
    got->n = 0; /* closed by now, or in their places */
    return r;
}

static int await_go(struct keeper *k, struct err *e)
{
    struct layers_said said;
    ssize_t n;

    if (!layers_kind_waits(k->job.kind))
        return 0;
    n = ipc_recv(k->sock, &said, sizeof said, NULL, e);
    if (n == 0)
        give_up(k);
    if (n < 0 || layers_said_check(&said, (size_t)n, e) < 0)
        return err_set(e, ERR_INVALID, "the keeper was not told to go");
    return said.word == LAYERS_GO ? 0 : err_set(e, ERR_INVALID, "the keeper was not told to go");
}

static int work(struct keeper *k, struct err *e)
{
    struct layers_said ready = { 0 };
    int r = enter(k, e);

    if (r >= 0 && k->job.kind == LAYERS_CAPTURE)
        r = keeper_capture_prepare(k, e);
    if (r < 0)
        return r;
    say(k, &ready, LAYERS_READY);
    r = await_go(k, e);
    hook_point("layers.begin");
    return r < 0 ? r : jobs[k->job.kind](k, e);
}

/* Where it is refused, it is only in the way of others a little. */
static void be_idle(void)
{
    const struct sched_param none = { 0 };

    (void)setpriority(PRIO_PROCESS, 0, LEAST_PRIORITY);
    (void)sched_setscheduler(0, SCHED_IDLE, &none);
    (void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

/* The program that decompresses cannot be found any more by one that is confined. */
static keeper_job_fn *const preparations[LAYERS_KIND_COUNT_] = {
    [LAYERS_UNPACK] = keeper_unpack_prepare,
    [LAYERS_MANIFEST] = keeper_archive_prepare,
    [LAYERS_IMPORT] = keeper_archive_prepare,
};

int keeper_run(int sock, int storage)
{
    static struct keeper k;
    struct ipc_fds got = { .n = 0 };
    struct err *e = &k.done.err;
    ssize_t n;
    int r;

    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    k = (struct keeper){ .sock = sock,
                         .box = -1,
                         .ahead = -1,
                         .storage = STORAGE_NONE,
                         .growth = GROWTH_NONE,
                         .decompress = DECOMPRESS_NONE };
    n = ipc_recv(sock, &k.job, sizeof k.job, &got, e);
    if (n == 0)
        return 0; /* nobody wants anything after all */
    r = n < 0 ? (int)n : layers_job_check(&k.job, (size_t)n, got.n, e);
    if (r >= 0 && (k.job.flags & LAYERS_IDLE))
        be_idle();
    if (r >= 0)
        r = become_owner(&k, e);
    if (r >= 0)
        r = place_fds(&k, sock, storage, &got, e);
    if (r >= 0 && preparations[k.job.kind])
        r = preparations[k.job.kind](&k, e);
    if (r >= 0)
        r = work(&k, e);
    decompress_end(&k.decompress);
    k.done.r = r;
    growth_done(&k.growth);
    hook_point("layers.done");
    say(&k, &k.done, LAYERS_DONE);
    drop_fd(&k.box);
    storage_done(&k.storage);
    ipc_fds_done(&got);
    return 0;
}
