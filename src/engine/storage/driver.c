/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/storage/driver.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/storage/seed.h"
#include "engine/storage/share.h"
#include "engine/storage/subvolume.h"

/* Inode numbers that a create may use up: a second or two. */
enum { NUMBERS_A_BOX = 50000 };

static int check_nothing(int dir, struct err *e)
{
    return 0;
}

static int check_btrfs(int dir, struct err *e)
{
    return subvolume_possible(dir) ? 0
                                   : err_set(e, ERR_UNSUPPORTED, "its file system is not btrfs");
}

static int make_box_dir(const struct driver_place *at, const char *name, struct err *e)
{
    return mkdirat(at->boxes, name, 0700) < 0 ? err_sys(e, "creating %s/%s", STORAGE_BOXES, name)
                                              : 0;
}

/* The kernel makes subvolumes with mode 0755, ignoring the umask. */
static int make_subvolume(const struct driver_place *at, const char *name, struct err *e)
{
    int r = at->above ? seed_plant(at->storage, at->above, NUMBERS_A_BOX, at->boxes, name, e)
                      : subvolume_make(at->boxes, name, e);

    if (r >= 0 && fchmodat(at->boxes, name, 0700, 0) < 0)
        r = err_sys(e, "restricting access to %s/%s", STORAGE_BOXES, name);
    return r;
}

static int limit_subvolume(int box, uint64_t bytes, struct err *e)
{
    AUTO_CLOSE int fd =
        openat(box, STORAGE_RESERVE, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || fallocate(fd, 0, 0, STORAGE_RESERVE_BYTES) < 0)
        return err_sys(e, "reserving space for a layer");
    drop_fd(&fd);
    return subvolume_limit(box, bytes + STORAGE_RESERVE_BYTES, e);
}

static_assert((int)DRIVER_COUNTERS == (int)SUBVOLUME_COUNTERS, "one is opened as the other");

/* For "auto" the first that works. */
static const struct driver drivers[] = {
    { "btrfs", true, true, check_btrfs, make_subvolume, limit_subvolume, subvolume_open_counters,
      share_charge },
    { "reflink", true, true, probe_reflink, make_box_dir, NULL, NULL, NULL },
    { "memory", false, true, check_nothing, NULL, NULL, NULL, NULL },
    { "plain", true, false, check_nothing, make_box_dir, NULL, NULL, NULL },
};

const struct driver *driver_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(drivers); i++)
        if (strcmp(drivers[i].name, name) == 0)
            return &drivers[i];
    return NULL;
}

/* --- choosing --- */

/* Whether the driver can limit a box; tested on an unused one. */
static bool can_limit(const struct driver *d, int box, struct err *e)
{
    enum { ANY = 1 << 30 };

    if (!d->limit)
        return err_set(e, ERR_UNSUPPORTED, "this driver does not support limits") >= 0;
    return d->limit(box, ANY, e) >= 0;
}

static int try_box(const struct driver *d, const struct driver_place *at, const char *name,
                   struct driver_choice *ret, struct err *e)
{
    AUTO_CLOSE int box = -1;
    struct err why;
    int r = d->make(at, name, &why);

    if (r < 0 && (why.sys == ENOSPC || why.sys == EDQUOT)) {
        snprintf(ret->why, sizeof ret->why, "not probed, because the disk is full");
        return 0; /* boxes of an earlier run are there, and must not be left for another driver */
    }
    if (r < 0) {
        *e = why;
        return r;
    }
    box = openat(at->boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = box < 0 ? err_sys(e, "opening %s", name) : probe_overlay(box, e);
    ret->limited = r >= 0 && can_limit(d, box, &why);
    if (r >= 0 && !ret->limited)
        snprintf(ret->why, sizeof ret->why, "disk limits are not enforced: %.120s", why.msg);
    if (box >= 0)
        (void)unlinkat(box, STORAGE_RESERVE, 0);
    if (unlinkat(at->boxes, name, AT_REMOVEDIR) < 0 && r >= 0)
        r = err_sys(e, "removing %s/%s", STORAGE_BOXES, name);
    return r;
}

static int try_driver(const struct driver *d, int storage, struct driver_choice *ret, struct err *e)
{
    AUTO_CLOSE int boxes = -1;
    char name[32];
    int r = d->check(storage, e);

    if (r < 0)
        return r;
    *ret = (struct driver_choice){ .driver = d, .limited = !d->on_disk };
    if (!d->on_disk)
        return 0;
    if (mkdirat(storage, STORAGE_BOXES, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "creating %s/", STORAGE_BOXES);
    boxes = openat(storage, STORAGE_BOXES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (boxes < 0)
        return err_sys(e, "opening %s/", STORAGE_BOXES);
    snprintf(name, sizeof name, "trial.%d", (int)getpid());
    return try_box(d, &(struct driver_place){ .storage = storage, .boxes = boxes }, name, ret, e);
}

static void explain_choice(struct driver_choice *c, const char *why)
{
    char limits[sizeof c->why];

    memcpy(limits, c->why, sizeof limits);
    snprintf(c->why, sizeof c->why, "%.60s%s%.130s", why, limits[0] ? "; " : "", limits);
}

int driver_choose(const char *name, int storage, struct driver_choice *ret, struct err *e)
{
    const struct driver *d = driver_find(name);
    int r = -(int)ERR_UNSUPPORTED;

    if (d) {
        r = try_driver(d, storage, ret, e);
        if (r >= 0)
            explain_choice(ret, "as configured");
        return err_wrap(e, r, "storage.driver: %s cannot be used on the state directory", name);
    }
    for (size_t i = 0; i < COUNT_OF(drivers) && r < 0; i++)
        if (drivers[i].by_itself)
            r = try_driver(&drivers[i], storage, ret, e);
    if (r >= 0)
        explain_choice(ret, ret->driver->on_disk
                                ? "supported by the file system of the state directory"
                                : "the state directory has neither btrfs nor reflinks");
    return r;
}
