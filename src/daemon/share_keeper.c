/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/share_keeper.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/companion.h"
#include "engine/storage/share.h"
#include "engine/storage/subvolume.h"
#include "lib/proc/caps.h"

enum { TICK_US = 100000, BUSY_TICK_US = 10000, LONGER = 20, IDLE_TICKS = 100 };

#define LEAST_CHANGE (UINT64_C(256) << 10)

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

pid_t share_keeper_fork(void *share, struct err *e)
{
    const struct share_keeper *of = share;
    struct keeper k = { .storage = of->storage, .bytes = of->bytes };
    pid_t self = getpid(), pid;

    if (!of->bytes)
        return 0;
    pid = fork();
    if (pid < 0)
        return err_sys(e, "starting the process that keeps owners within their share");
    if (pid > 0)
        return pid;
    companion_enter(self, &k.storage, 1);
    k.sys = open("/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
    subvolume_open_pending(k.sys, k.storage, k.pending);
    run_share_keeper(&k);
}
