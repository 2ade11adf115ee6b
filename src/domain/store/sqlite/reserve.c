/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"

static const int64_t MEND_EVERY_NS = NS_PER_S / 4;

static uint64_t free_bytes(int fd, uint64_t *ret_all)
{
    struct statvfs fs;

    if (fstatvfs(fd, &fs) < 0)
        return 0;
    if (ret_all)
        *ret_all = (uint64_t)fs.f_blocks * fs.f_frsize;
    return (uint64_t)fs.f_bavail * fs.f_frsize;
}

static void set_reserve_size(struct reserve *r, uint64_t size)
{
    bool was = atomic_load(&r->short_), now = size < r->wanted;

    r->size = size;
    atomic_store(&r->short_, now);
    if (now && !was)
        LOG(ERROR, "store.disk_full", LOG_I("reserve", (int64_t)size));
    else if (was && !now)
        LOG(INFO, "store.disk_has_room", LOG_I("reserve", (int64_t)size));
}

/* Allocates the blocks: a sparse file would reserve nothing. */
static bool fill_up(struct reserve *r)
{
    if (fallocate(r->fd, 0, 0, (off_t)r->wanted) < 0) {
        if (errno == ENOSPC || errno == EDQUOT)
            (void)!ftruncate(r->fd, (off_t)r->size);
        return false;
    }
    set_reserve_size(r, r->wanted);
    return true;
}

void reserve_give(int dir)
{
    AUTO_CLOSE int fd = openat(dir, RESERVE_FILE, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);

    (void)fd;
}

void reserve_open(struct reserve *r, int dir)
{
    uint64_t all = 0;

    *r = (struct reserve){
        .fd = openat(dir, RESERVE_FILE, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600),
        .wanted = RESERVE_MAX,
    };
    if (r->fd < 0) {
        LOG(WARN, "store.no_reserve", LOG_I("errno", errno));
        return;
    }
    free_bytes(r->fd, &all);
    if (all && all / RESERVE_PART < r->wanted)
        r->wanted = all / RESERVE_PART;
    if (!fill_up(r) && errno != ENOSPC && errno != EDQUOT) {
        LOG(WARN, "store.no_reserve", LOG_I("errno", errno)); /* fallocate() is not supported */
        drop_fd(&r->fd);
    } else if (!r->size) {
        set_reserve_size(r, 0);
    }
}

void reserve_close(struct reserve *r)
{
    drop_fd(&r->fd);
}

bool reserve_cut(struct reserve *r, uint64_t n)
{
    uint64_t size = r->size > n ? r->size - n : 0;

    if (r->fd < 0 || !r->size || ftruncate(r->fd, (off_t)size) < 0)
        return false;
    set_reserve_size(r, size);
    return true;
}

void reserve_mend(struct reserve *r)
{
    int64_t now;

    if (r->fd < 0 || r->size == r->wanted)
        return;
    now = clock_mono();
    if (now - r->look_ns < MEND_EVERY_NS)
        return;
    r->look_ns = now;
    if (free_bytes(r->fd, NULL) >= 2 * r->wanted)
        (void)fill_up(r);
}

bool reserve_is_needed(const struct reserve *r)
{
    return atomic_load(&r->short_) && r->fd >= 0 && free_bytes(r->fd, NULL) < 2 * r->wanted;
}
