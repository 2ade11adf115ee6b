/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/share_keeper.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "engine/storage/share.h"
#include "engine/storage/subvolume.h"
#include "lib/proc/caps.h"
#include "lib/proc/sys.h"

enum { TICK_US = 100000, BUSY_TICK_US = 10000, LONGER = 20, IDLE_TICKS = 100 };

#define LEAST_CHANGE (UINT64_C(256) << 10)

/* Of a process that ends again and again; one that lived for LONG_NS is new. */
#define FIRST_PAUSE_NS (100 * NS_PER_MS)
#define LONG_NS        (60 * NS_PER_S)
enum { MOST_DOUBLINGS = 5 };

struct keeper {
    int storage, sys;
    int pending[SUBVOLUME_PENDING];
    uint64_t bytes;
    uint64_t seen; /* bytes in use at the last look */
    bool reported;
};

static uint64_t read_pending(int fd)
{
    char text[32];
    ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return strtoull(text, NULL, 10);
}

/* Bytes in use, with data that waits to be written. */
static uint64_t count_use(const struct keeper *k)
{
    struct statvfs fs;
    uint64_t use = 0;

    if (fstatvfs(k->storage, &fs) == 0)
        use = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
    for (size_t i = 0; i < SUBVOLUME_PENDING; i++)
        use += read_pending(k->pending[i]);
    return use;
}

static bool has_changed(struct keeper *k)
{
    uint64_t use = count_use(k), change = use > k->seen ? use - k->seen : k->seen - use;

    if (change < LEAST_CHANGE)
        return false;
    k->seen = use;
    return true;
}

/* Logs a reason once, until it is resolved. */
static void enforce_shares(struct keeper *k)
{
    struct err e;
    int r = share_enforce(k->storage, k->sys, k->bytes, &e);

    if (r < 0 && !k->reported)
        LOG(WARN, "storage.not_shared", LOG_S("reason", e.msg));
    k->reported = r < 0;
}

static _Noreturn void run_share_keeper(struct keeper *k)
{
    struct err e;

    prctl(PR_SET_NAME, "sandboxer-share", 0, 0, 0);
    if (caps_set(CAP_BIT(CAP_SYS_ADMIN), 0, &e) < 0)
        LOG(WARN, "storage.not_shared", LOG_S("reason", e.msg));
    for (unsigned idle = IDLE_TICKS;; idle++) {
        int64_t begin = clock_mono();
        bool changed = has_changed(k);

        if (changed || idle >= IDLE_TICKS) {
            enforce_shares(k);
            idle = 0;
        }
        usleep((changed ? BUSY_TICK_US : TICK_US) +
               (unsigned)((clock_mono() - begin) / 1000) * LONGER);
    }
}

/* Of the monitor's descriptors it has its log and the storage: an end of a channel that it kept open
 * would hide that the other process is gone. */
static void keep_only_storage(int storage)
{
    if (storage > STDERR_FILENO + 1)
        sys_close_range(STDERR_FILENO + 1, (unsigned)storage - 1);
    sys_close_range((unsigned)storage + 1, ~0u);
}

static pid_t fork_share_keeper(int storage, uint64_t bytes, struct err *e)
{
    struct keeper k = { .storage = storage, .bytes = bytes };
    pid_t self = getpid(), pid = fork();

    if (pid < 0)
        return err_sys(e, "starting the process that keeps owners within their share");
    if (pid > 0)
        return pid;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != self)
        _exit(1);
    keep_only_storage(storage);
    k.sys = open("/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
    subvolume_open_pending(k.sys, storage, k.pending);
    run_share_keeper(&k);
}

/* Returns the pause. */
static int64_t plan_restart(struct share_keeper *k)
{
    int64_t now = clock_mono(), pause;

    k->ends = now - k->started < LONG_NS ? k->ends + 1 : 1;
    pause = k->ends < 2
                ? 0
                : FIRST_PAUSE_NS << (k->ends - 2 < MOST_DOUBLINGS ? k->ends - 2 : MOST_DOUBLINGS);
    k->pid = 0;
    k->due = now + pause;
    return pause;
}

void share_keeper_start(struct share_keeper *k)
{
    struct err e;
    pid_t pid;

    if (!k->bytes)
        return;
    k->started = clock_mono();
    k->due = 0;
    pid = fork_share_keeper(k->storage, k->bytes, &e);
    if (pid > 0) {
        k->pid = pid;
        return;
    }
    LOG(WARN, "storage.not_shared", LOG_S("reason", e.msg));
    plan_restart(k);
}

void share_keeper_ended(struct share_keeper *k, pid_t pid, int status)
{
    int64_t pause;

    if (!k->pid || pid != k->pid)
        return;
    pause = plan_restart(k);
    LOG(WARN, "storage.share_keeper_ended",
        LOG_I("status", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)),
        LOG_I("pause_ms", pause / NS_PER_MS));
}

int64_t share_keeper_due(const struct share_keeper *k)
{
    return k->due;
}

void share_keeper_restart(struct share_keeper *k)
{
    if (k->due && k->due <= clock_mono())
        share_keeper_start(k);
}

void share_keeper_stop(struct share_keeper *k)
{
    if (k->pid && kill(k->pid, SIGKILL) == 0)
        waitpid(k->pid, NULL, 0);
    *k = (struct share_keeper){ .storage = -1 };
}
