/* SPDX-License-Identifier: Apache-2.0 */
#include "control/process/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"

static const char magic[8] = "sbxout1\n";

struct output_file_head {
    char magic[8];
    uint64_t base;
};

struct output_record_head {
    uint32_t n;
    uint32_t channel;
};

enum { HEAD = sizeof(struct output_file_head), RECORD_HEAD = sizeof(struct output_record_head) };
enum { OUTPUT_PLACE_MIN = 2048 }; /* minimum size of a file that is overwritten */

static bool write_output_at(int fd, const void *p, size_t n, uint64_t at)
{
    return pwrite(fd, p, n, (off_t)at) == (ssize_t)n;
}

static bool read_output_at(int fd, void *p, size_t n, uint64_t at)
{
    return pread(fd, p, n, (off_t)at) == (ssize_t)n;
}

static bool read_record_head(const struct output_file *f, uint64_t at,
                             struct output_record_head *ret)
{
    return at + RECORD_HEAD <= f->size && read_output_at(f->fd, ret, sizeof *ret, at) && ret->n &&
           ret->n <= OUTPUT_RECORD_MAX && (ret->channel == 1 || ret->channel == 2) &&
           at + RECORD_HEAD + ret->n <= f->size;
}

/* --- opening --- */

/* Counts the whole records of a file and truncates the rest. */
static void scan_output_file(struct output_file *f, const char *name)
{
    struct output_file_head head;
    struct output_record_head rec;
    struct stat st;
    uint64_t at = HEAD;

    if (f->fd < 0 || fstat(f->fd, &st) < 0)
        return;
    f->blank = st.st_size == 0;
    if (st.st_size < HEAD || !read_output_at(f->fd, &head, sizeof head, 0) ||
        memcmp(head.magic, magic, sizeof magic) != 0)
        return;
    f->base = head.base;
    f->size = (uint64_t)st.st_size;
    for (; read_record_head(f, at, &rec); at += RECORD_HEAD + rec.n) {
        f->n += rec.n;
        f->last.at = at;
        f->last.n = rec.n;
        f->last.channel = (int)rec.channel;
    }
    f->size = at;
    if (at != (uint64_t)st.st_size && ftruncate(f->fd, (off_t)at) < 0)
        LOG(WARN, "output.truncate_failed", LOG_S("file", name));
}

static bool open_output_file(struct process_output *o, unsigned which, int flags)
{
    char name[sizeof o->name_ + 2];

    snprintf(name, sizeof name, "%s.%u", o->name_, which);
    o->file[which].fd = openat(o->state_, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    return o->file[which].fd >= 0;
}

int output_open(struct process_output *o, int state, const char *sandbox, uint32_t proc,
                enum output_mode mode, struct err *e)
{
    struct output_file *older, *newer;
    char dir[ID_MAX + 16];
    int r = 0;

    *o = OUTPUT_INIT;
    o->state_ = state;
    snprintf(o->name_, sizeof o->name_, "output/%s/%u", sandbox, proc);
    if (mode == OUTPUT_MAKE) { /* opening the files reports errors */
        snprintf(dir, sizeof dir, "output/%s", sandbox);
        (void)!mkdirat(state, "output", 0700);
        (void)!mkdirat(state, dir, 0700);
    }
    /* The second file is created when the first is full, which rarely happens. */
    if (!open_output_file(o, 0, mode == OUTPUT_MAKE ? O_CREAT : 0))
        r = err_sys(e, "opening %s.0", o->name_);
    else if (!open_output_file(o, 1, 0) && errno != ENOENT)
        r = err_sys(e, "opening %s.1", o->name_);
    if (r < 0) {
        output_close(o);
        return r;
    }
    scan_output_file(&o->file[0], o->name_);
    scan_output_file(&o->file[1], o->name_);
    o->now_ = o->file[1].size && (!o->file[0].size || o->file[1].base >= o->file[0].base);
    newer = &o->file[o->now_];
    older = &o->file[1 - o->now_];
    o->total = newer->base + newer->n;
    if (older->size && older->base + older->n != newer->base)
        older->size = older->n = 0;
    return 0;
}

void output_close(struct process_output *o)
{
    drop_fd(&o->file[0].fd);
    drop_fd(&o->file[1].fd);
}

bool output_is_open(const struct process_output *o)
{
    return o->file[0].fd >= 0;
}

/* --- writing --- */

/* Restarts a file at the current position. ext4 writes a file that was truncated to 0 to disk when
 * it is closed, so an empty file is not truncated. */
static bool begin_output_file(struct process_output *o, unsigned which)
{
    struct output_file *f = &o->file[which];
    struct output_file_head head = { .base = o->total };

    memcpy(head.magic, magic, sizeof magic);
    o->now_ = which;
    f->last.channel = 0;
    f->base = o->total;
    f->size = f->n = 0;
    if ((f->fd < 0 && !open_output_file(o, which, O_CREAT)) ||
        (!f->blank && ftruncate(f->fd, 0) < 0))
        return false;
    f->blank = false;
    if (!write_output_at(f->fd, &head, sizeof head, 0))
        return false;
    f->size = HEAD;
    return true;
}

static bool add_output_record(struct output_file *f, int channel, struct str data)
{
    struct output_record_head head = { .n = (uint32_t)data.n, .channel = (uint32_t)channel };
    struct iovec v[2] = { { &head, sizeof head }, { (void *)(uintptr_t)data.p, data.n } };

    if (pwritev(f->fd, v, 2, (off_t)f->size) != (ssize_t)(sizeof head + data.n))
        return false;
    f->last.at = f->size;
    f->last.n = head.n;
    f->last.channel = channel;
    f->size += sizeof head + data.n;
    return true;
}

/* The bytes first, then the length that makes them valid. */
static bool grow_output_record(struct output_file *f, struct str data)
{
    struct output_record_head head = { .n = f->last.n + (uint32_t)data.n,
                                       .channel = (uint32_t)f->last.channel };

    if (!write_output_at(f->fd, data.p, data.n, f->size) ||
        !write_output_at(f->fd, &head, sizeof head, f->last.at))
        return false;
    f->last.n = head.n;
    f->size += data.n;
    return true;
}

uint64_t output_size(const struct process_output *o)
{
    return o->file[0].size + o->file[1].size;
}

void output_bound(struct process_output *o, struct quota_hold *hold, uint64_t free_min)
{
    uint64_t size = output_size(o);

    o->hold_ = hold;
    o->free_min_ = free_min;
    if (hold->share && size > hold->n)
        quota_force(hold, size - hold->n);
}

bool output_disk_has_room(int state, uint64_t free_min)
{
    struct statvfs fs;
    uint64_t keep = free_min, left;

    if (fstatvfs(state, &fs) < 0)
        return true;
    left = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (keep > (uint64_t)fs.f_blocks * fs.f_frsize / 20)
        keep = (uint64_t)fs.f_blocks * fs.f_frsize / 20;
    return left >= keep + OUTPUT_FLOOR;
}

uint64_t output_reserve(const struct process_output *o, uint64_t n)
{
    uint64_t older = o->file[1 - o->now_].size, newer = o->file[o->now_].size + n;

    return 2 * (older > newer ? older : newer);
}

/* Before `n` bytes are added: charges them to the quota, and checks the disk. */
static void reserve_room(struct process_output *o, uint64_t n)
{
    struct quota_hold *h = o->hold_;
    uint64_t want = output_reserve(o, n + HEAD + RECORD_HEAD);
    bool full;

    if (!h || !h->share)
        return;
    full = !output_disk_has_room(o->state_, o->free_min_);
    if (full && !o->full_)
        o->full_at_ = output_size(o);
    o->full_ = full;
    if (want <= h->n)
        return;
    n = (want - h->n + OUTPUT_FLOOR - 1) / OUTPUT_FLOOR * OUTPUT_FLOOR;
    o->tight_ = o->full_ || quota_grow(h, n, NULL) < 0;
}

/* The size limit of a file: half of the quota, if that cannot grow. */
static uint64_t output_file_max(const struct process_output *o)
{
    uint64_t half = o->tight_ ? o->hold_->n / 2 : OUTPUT_FILE_MAX;

    if (o->full_ && o->full_at_ / 2 < half)
        half = o->full_at_ / 2;
    return half < OUTPUT_FILE_MAX ? half : OUTPUT_FILE_MAX;
}

static bool is_output_bounded(const struct process_output *o)
{
    return o->full_ || o->tight_;
}

static bool add_output(struct process_output *o, int channel, struct str *data)
{
    struct output_file *f = &o->file[o->now_];
    bool grows = f->last.channel == channel && f->last.n < OUTPUT_RECORD_MAX;
    size_t max = OUTPUT_RECORD_MAX - (grows ? f->last.n : 0);
    struct str piece;

    if (is_output_bounded(o) && max > output_file_max(o) - f->size - RECORD_HEAD)
        max = (size_t)(output_file_max(o) - f->size - RECORD_HEAD);
    piece = (struct str){ data->p, data->n < max ? data->n : max };
    if (!(grows ? grow_output_record(f, piece) : add_output_record(f, channel, piece)))
        return false;
    f->n += piece.n;
    o->total += piece.n;
    data->p += piece.n;
    data->n -= piece.n;
    return true;
}

/* Discards all output: better none than an unmarked gap. */
static void lose_output(struct process_output *o, size_t n)
{
    if (!o->failing_)
        LOG(WARN, "output.lost", LOG_S("file", o->name_),
            LOG_I("errno", output_is_open(o) ? errno : EBADF));
    o->failing_ = true;
    o->total += n;
    for (int i = 0; i < 2; i++) {
        o->file[i].size = o->file[i].n = 0;
        o->file[i].base = o->total;
        if (o->file[i].fd >= 0)
            (void)!ftruncate(o->file[i].fd, 0);
    }
}

void output_append(struct process_output *o, int channel, struct str data)
{
    while (data.n) {
        struct output_file *f = &o->file[o->now_];
        bool ok = output_is_open(o);

        if (ok)
            reserve_room(o, data.n < OUTPUT_RECORD_MAX ? data.n : OUTPUT_RECORD_MAX);
        /* On a full disk newer output replaces older; if there is hardly any space, it is lost. */
        if (ok && o->full_ && o->full_at_ / 2 < OUTPUT_PLACE_MIN) {
            errno = ENOSPC;
            ok = false;
        }
        if (ok && !f->size)
            ok = begin_output_file(o, o->now_);
        else if (ok && f->size + (is_output_bounded(o) ? RECORD_HEAD : 0) >= output_file_max(o))
            ok = begin_output_file(o, 1 - o->now_);
        if (!ok || !add_output(o, channel, &data)) {
            lose_output(o, data.n);
            return;
        }
        if (o->hold_ && output_size(o) > o->hold_->n) /* limits were lowered since */
            quota_force(o->hold_, output_size(o) - o->hold_->n);
    }
}

/* --- reading --- */

uint64_t output_start(const struct process_output *o)
{
    const struct output_file *older = &o->file[1 - o->now_];

    return older->size ? older->base : o->file[o->now_].base;
}

static const struct output_file *find_output_file(const struct process_output *o, uint64_t at)
{
    for (int i = 0; i < 2; i++)
        if (o->file[i].size && at >= o->file[i].base && at < o->file[i].base + o->file[i].n)
            return &o->file[i];
    return NULL;
}

/* Moves the cursor to the record of `at`; false if the file is damaged. */
static bool find_output_record(const struct output_file *f, struct output_cursor *c,
                               struct output_record_head *ret)
{
    if (!c->record_ || c->base_ != f->base) {
        c->base_ = c->first_ = f->base;
        c->record_ = HEAD;
    }
    while (read_record_head(f, c->record_, ret)) {
        if (c->at < c->first_ + ret->n)
            return true;
        c->record_ += RECORD_HEAD + ret->n;
        c->first_ += ret->n;
    }
    return false;
}

static ssize_t read_output_record(const struct output_file *f, struct output_cursor *c,
                                  int *ret_channel, char *ret, size_t cap)
{
    struct output_record_head rec;
    uint64_t within, left;

    if (!find_output_record(f, c, &rec))
        return -1;
    within = c->at - c->first_;
    left = rec.n - within;
    *ret_channel = (int)rec.channel;
    return pread(f->fd, ret, left < cap ? (size_t)left : cap,
                 (off_t)(c->record_ + RECORD_HEAD + within));
}

size_t output_read(const struct process_output *o, struct output_cursor *c, int *ret_channel,
                   char *ret, size_t cap)
{
    const struct output_file *f;

    if (c->at < output_start(o))
        c->at = output_start(o);
    while (output_is_open(o) && (f = find_output_file(o, c->at))) {
        ssize_t n = read_output_record(f, c, ret_channel, ret, cap);

        if (n > 0) {
            c->at += (size_t)n;
            return (size_t)n;
        }
        c->at = f->base + f->n; /* the file is damaged: this part is lost */
    }
    return 0;
}

/* --- removing --- */

void output_remove(int state, const char *sandbox, uint32_t proc)
{
    char name[ID_MAX + 40];

    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "output/%s/%u.%d", sandbox, proc, i);
        (void)!unlinkat(state, name, 0);
    }
}

static void close_dirp(DIR **d)
{
    if (*d)
        closedir(*d);
}

static DIR *open_output_dir(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d && fd >= 0)
        close(fd);
    return d;
}

void output_remove_all(int state, const char *sandbox)
{
    char name[ID_MAX + 16];
    AUTO(close_dirp) DIR *d = NULL;

    snprintf(name, sizeof name, "output/%s", sandbox);
    d = open_output_dir(state, name);
    for (struct dirent *v; d && (v = readdir(d));)
        if (strcmp(v->d_name, ".") != 0 && strcmp(v->d_name, "..") != 0)
            (void)!unlinkat(dirfd(d), v->d_name, 0);
    if (unlinkat(state, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        LOG(WARN, "output.not_removed", LOG_S("sandbox", sandbox), LOG_I("errno", errno));
}

void output_sweep(int state, bool (*known)(void *user, const char *id), void *user)
{
    AUTO(close_dirp) DIR *d = open_output_dir(state, "output");

    for (struct dirent *v; d && (v = readdir(d));)
        if (id_valid("sbx_", str_from(v->d_name)) && !known(user, v->d_name))
            output_remove_all(state, v->d_name);
}
