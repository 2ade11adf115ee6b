/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/storage/share.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/btrfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/own.h"
#include "base/str.h"
#include "engine/storage/driver.h"
#include "engine/storage/subvolume.h"

#define ROOM_TO_BEGIN (UINT64_C(1) << 20) /* of a new box: its directories, and its reserve */
/* A box can write so much when its owner's share is used up: its metadata, to be captured. */
#define LAST_ROOM   (UINT64_C(128) << 10)
#define LEAST_RAISE (UINT64_C(64) << 10) /* a limit is a write to the disk */

/* --- notes --- */

static int write_note(int dir, const char *owner, uint64_t disk, struct err *e)
{
    AUTO_CLOSE int note =
        openat(dir, SHARE_NOTE, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    char text[SHARE_OWNER_MAX + 32];
    int n = snprintf(text, sizeof text, "%s %" PRIu64 "\n", owner, disk);

    fault_point("share.noted");
    return note < 0 || write(note, text, (size_t)n) != n ? err_sys(e, "noting the owner of a box")
                                                         : 0;
}

int share_charge(int storage, int box, const struct share_charge *c, struct err *e)
{
    AUTO_CLOSE int full = openat(storage, SHARE_FULL, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (!c->again && full >= 0 && faccessat(full, c->owner, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(e, ERR_FULL,
                       "the sandboxes and snapshots of this owner have used up their share of the "
                       "disk (limits.owner.disk): remove files in them, or destroy some");
    return write_note(box, c->owner, c->disk, e);
}

static bool read_note(int box, char owner[static SHARE_OWNER_MAX], uint64_t *ret_disk)
{
    AUTO_CLOSE int note = openat(box, SHARE_NOTE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char text[SHARE_OWNER_MAX + 32];
    ssize_t n = note < 0 ? -1 : read(note, text, sizeof text);
    struct str line, name, rest = str_cut((struct str){ text, n > 0 ? (size_t)n : 0 }, '\n', &line);
    struct str disk = str_cut(line, ' ', &name);

    return rest.p && disk.p && name.n && str_copy(name, owner, SHARE_OWNER_MAX) &&
           str_to_u64(disk, ret_disk);
}

/* --- what there is --- */

struct charged_owner {
    char name[SHARE_OWNER_MAX];
    uint64_t used;
};

struct charged_box {
    uint64_t tree;
    struct share_box box;
    size_t owner;
};

struct share_count {
    int quotas; /* the directory of quotas in /sys */
    struct charged_owner *owners;
    struct charged_box *box;
    size_t n_owners, n_boxes, room_owners, room_boxes;
};

static void count_done(struct share_count *c)
{
    drop_fd(&c->quotas);
    free(c->owners);
    free(c->box);
}

/* Room for one more row. */
static void *grow_rows(void *rows, size_t n, size_t *room, size_t size)
{
    void *more;

    if (n < *room)
        return rows;
    *room = *room ? *room * 2 : 64;
    more = new0_array(*room, size);
    if (n)
        memcpy(more, rows, n * size);
    free(rows);
    return more;
}

static size_t find_charged_owner(struct share_count *c, const char *name)
{
    for (size_t i = 0; i < c->n_owners; i++)
        if (strcmp(c->owners[i].name, name) == 0)
            return i;
    c->owners = grow_rows(c->owners, c->n_owners, &c->room_owners, sizeof *c->owners);
    snprintf(c->owners[c->n_owners].name, sizeof c->owners->name, "%s", name);
    return c->n_owners++;
}

static bool read_quota(const struct share_count *c, uint64_t tree, const char *file, uint64_t *ret)
{
    char path[64], text[32];
    AUTO_CLOSE int fd = -1;
    ssize_t n;

    snprintf(path, sizeof path, "0_%" PRIu64 "/%s", tree, file);
    fd = openat(c->quotas, path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    *ret = strtoull(text, NULL, 10);
    return n > 0;
}

static void charge_owner(struct share_count *c, const char *owner, uint64_t bytes, size_t *ret)
{
    *ret = find_charged_owner(c, owner);
    c->owners[*ret].used += bytes;
}

/* Data that waits to be written counts, too. */
static void count_box(struct share_count *c, int dir, const char *owner, uint64_t disk)
{
    struct charged_box b = { 0 };
    uint64_t alone, waiting;

    if (subvolume_tree(dir, &b.tree) < 0 || !read_quota(c, b.tree, "referenced", &b.box.used) ||
        !read_quota(c, b.tree, "exclusive", &alone) ||
        !read_quota(c, b.tree, "rsv_data", &waiting) ||
        !read_quota(c, b.tree, "max_referenced", &b.box.limit))
        return;
    b.box.used += waiting;
    b.box.limit = b.box.limit ? b.box.limit : UINT64_MAX;
    b.box.own = disk ? disk + STORAGE_RESERVE_BYTES : UINT64_MAX;
    charge_owner(c, owner, alone + waiting, &b.owner);
    c->box = grow_rows(c->box, c->n_boxes, &c->room_boxes, sizeof *c->box);
    c->box[c->n_boxes++] = b;
}

/* The bytes of a layer that is no subvolume, such as a merged one. */
static uint64_t read_layer_bytes(int dir)
{
    AUTO_CLOSE int info = openat(dir, "info", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char text[192], *at;
    ssize_t n = info < 0 ? -1 : read(info, text, sizeof text - 1);

    text[n > 0 ? n : 0] = '\0';
    at = strstr(text, "\"bytes\":");
    return at ? strtoull(at + sizeof "\"bytes\":" - 1, NULL, 10) : 0;
}

static void count_layer(struct share_count *c, int dir, const char *owner, uint64_t disk)
{
    uint64_t tree, bytes;
    size_t ignored;

    if (!subvolume_is(dir) || subvolume_tree(dir, &tree) < 0 ||
        !read_quota(c, tree, "referenced", &bytes))
        bytes = read_layer_bytes(dir);
    charge_owner(c, owner, bytes, &ignored);
}

/* Only what has a note is charged. */
static int count_entries(struct share_count *c, int storage, const char *place,
                         void (*count)(struct share_count *c, int dir, const char *owner,
                                       uint64_t disk),
                         struct err *e)
{
    int fd = openat(storage, place, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *all = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *d;

    if (!all) {
        drop_fd(&fd);
        return errno == ENOENT ? 0 : err_sys(e, "reading %s/", place);
    }
    while ((d = readdir(all))) {
        AUTO_CLOSE int dir =
            d->d_name[0] == '.'
                ? -1
                : openat(dirfd(all), d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        char owner[SHARE_OWNER_MAX];
        uint64_t disk;

        if (dir >= 0 && read_note(dir, owner, &disk))
            count(c, dir, owner, disk);
    }
    closedir(all);
    return 0;
}

/* --- what follows from it --- */

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A single box can use all that is left of the share. Where nothing is left, no limit is raised:
 * else a box would get a little more each time. */
static uint64_t choose_limit(const struct share_box *b, uint64_t left)
{
    if (!left)
        return smaller_of(b->own, smaller_of(b->limit, b->used + LAST_ROOM));
    return b->own - smaller_of(b->own, b->used) <= left ? b->own : b->used + left;
}

uint64_t share_limit(const struct share_box *b, uint64_t left)
{
    uint64_t limit = choose_limit(b, left);

    return limit < b->limit || limit - b->limit >= LEAST_RAISE || limit == b->own ? limit
                                                                                  : b->limit;
}

static int limit_boxes(const struct share_count *c, int storage, uint64_t bytes, struct err *e)
{
    int r = 0;

    for (size_t i = 0; i < c->n_boxes; i++) {
        const struct charged_box *b = &c->box[i];
        uint64_t used = c->owners[b->owner].used,
                 limit = share_limit(&b->box, bytes - smaller_of(bytes, used));

        if (limit != b->box.limit)
            r = subvolume_limit_tree(storage, b->tree, limit, r < 0 ? NULL : e) < 0 ? -(int)ERR_SYS
                                                                                    : r;
    }
    return r;
}

static bool is_full(const struct charged_owner *o, uint64_t bytes)
{
    return o->used + ROOM_TO_BEGIN > bytes;
}

static void mark_full(int full, const struct charged_owner *o)
{
    int fd = openat(full, o->name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    drop_fd(&fd);
}

static void clear_marks(int full, const struct share_count *c, uint64_t bytes)
{
    int fd = openat(full, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *d;

    if (!dir) {
        drop_fd(&fd);
        return;
    }
    while ((d = readdir(dir))) {
        size_t i = 0;

        while (i < c->n_owners && strcmp(c->owners[i].name, d->d_name) != 0)
            i++;
        if (d->d_name[0] != '.' && (i == c->n_owners || !is_full(&c->owners[i], bytes)))
            unlinkat(full, d->d_name, 0);
    }
    closedir(dir);
}

static int mark_owners(int storage, const struct share_count *c, uint64_t bytes, struct err *e)
{
    AUTO_CLOSE int full = -1;

    if (mkdirat(storage, SHARE_FULL, 0700) < 0 && errno != EEXIST)
        return err_sys(e, "creating %s/", SHARE_FULL);
    full = openat(storage, SHARE_FULL, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (full < 0)
        return err_sys(e, "opening %s/", SHARE_FULL);
    for (size_t i = 0; i < c->n_owners; i++)
        if (is_full(&c->owners[i], bytes))
            mark_full(full, &c->owners[i]);
    clear_marks(full, c, bytes);
    return 0;
}

/* The kernel gives up counting when it would take long, such as for the removal of a very large
 * tree: then no limit holds until everything was counted again. */
static int check_counting(const struct share_count *c, int storage, struct err *e)
{
    struct btrfs_ioctl_quota_rescan_args again = { 0 };
    AUTO_CLOSE int fd = openat(c->quotas, "inconsistent", O_RDONLY | O_CLOEXEC);
    char lost = '0';

    if (fd < 0 || read(fd, &lost, 1) != 1 || lost == '0')
        return 0;
    (void)subvolume_ioctl(storage, BTRFS_IOC_QUOTA_RESCAN, &again); /* EINPROGRESS: it is at it */
    return err_set(e, ERR_BUSY, "btrfs counts the use of the whole file system again");
}

int share_enforce(int storage, int sys, uint64_t bytes, struct err *e)
{
    AUTO(count_done) struct share_count c = { .quotas = -1 };
    int r;

    c.quotas = subvolume_open_sysfs(sys, storage, "qgroups", O_RDONLY | O_DIRECTORY);
    if (c.quotas < 0)
        return err_sys(e, "opening the quotas in /sys");
    r = check_counting(&c, storage, e);
    if (r >= 0)
        r = count_entries(&c, storage, STORAGE_BOXES, count_box, e);
    if (r >= 0)
        r = count_entries(&c, storage, "layers", count_layer, e);
    if (r >= 0)
        r = limit_boxes(&c, storage, bytes, e);
    return r < 0 ? r : mark_owners(storage, &c, bytes, e);
}

/* --- layers --- */

int share_copy_note(int from, int to, struct err *e)
{
    char owner[SHARE_OWNER_MAX];
    uint64_t disk;

    return read_note(from, owner, &disk) ? write_note(to, owner, disk, e) : 0;
}
