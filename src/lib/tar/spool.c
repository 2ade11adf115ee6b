/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/spool.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"

/* A record in the file, followed by the path without its NUL. */
struct spool_record {
    uint64_t next; /* offset of the next one of the same depth, or 0 */
    int64_t seconds;
    uint32_t ns, mode, uid, gid;
    uint32_t path_n;
    uint32_t unused;
};

void spool_init(struct spool *s)
{
    memset(s, 0, sizeof *s);
    s->fd_ = -1;
}

void spool_done(struct spool *s)
{
    drop_fd(&s->fd_);
}

static int write_spool_at(int fd, const void *p, size_t n, uint64_t at, struct err *e)
{
    ssize_t done = pwrite(fd, p, n, (off_t)at);

    if (done < 0)
        return err_sys(e, "writing a temporary file");
    if ((size_t)done != n) /* only a full disk stops a write in the middle */
        return err_set(e, ERR_SYS, "writing a temporary file: no space left");
    return 0;
}

static int read_spool_at(int fd, void *p, size_t n, uint64_t at, struct err *e)
{
    ssize_t done = pread(fd, p, n, (off_t)at);

    if (done < 0)
        return err_sys(e, "reading a temporary file");
    if ((size_t)done != n)
        return err_set(e, ERR_BUG, "a temporary file is shorter than what was written");
    return 0;
}

static int append_spool_record(struct spool *s, unsigned depth, const void *p, size_t n,
                               struct err *e)
{
    uint64_t at = s->end_, last = s->lists_[depth].last;
    int r;

    if (at + n > TREE_SPOOL_MAX)
        return err_set(e, ERR_TOO_BIG, "the archive names more directories than fit %llu MiB",
                       (unsigned long long)(TREE_SPOOL_MAX >> 20));
    r = write_spool_at(s->fd_, p, n, at, e);
    if (r >= 0 && last != 0)
        r = write_spool_at(s->fd_, &at, sizeof at, last + offsetof(struct spool_record, next), e);
    if (r < 0)
        return r;
    if (last == 0)
        s->lists_[depth].first = at;
    s->lists_[depth].last = at;
    s->end_ += n;
    return 0;
}

int spool_add(struct spool *s, int dest, const struct tree_path *path, const struct spool_dir *d,
              struct err *e)
{
    struct {
        struct spool_record head;
        char path[TREE_PATH_MAX];
    } out = { .head = { .seconds = d->mtime.tv_sec,
                        .ns = (uint32_t)d->mtime.tv_nsec,
                        .mode = d->mode,
                        .uid = d->uid,
                        .gid = d->gid,
                        .path_n = (uint32_t)path->n } };

    if (s->fd_ < 0) {
        s->fd_ = openat(dest, ".", O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        if (s->fd_ < 0)
            s->fd_ = memfd_create("tree-spool", MFD_CLOEXEC);
        if (s->fd_ < 0)
            return err_sys(e, "making a temporary file");
        s->end_ = sizeof out.head; /* offset 0 must not be a record */
    }
    memcpy(out.path, path->text, path->n);
    return append_spool_record(s, path->depth, &out, sizeof out.head + path->n, e);
}

static int read_spool_record(const struct spool *s, uint64_t at, uint64_t *ret_next,
                             struct spool_dir *ret, struct err *e)
{
    struct spool_record head;
    int r = read_spool_at(s->fd_, &head, sizeof head, at, e);

    if (r >= 0 && head.path_n >= sizeof ret->path)
        return err_set(e, ERR_BUG, "a temporary file does not hold what was written");
    if (r >= 0)
        r = read_spool_at(s->fd_, ret->path, head.path_n, at + sizeof head, e);
    if (r < 0)
        return r;
    memcpy(ret->path + head.path_n, head.path_n == 0 ? "." : "", head.path_n == 0 ? 2 : 1);
    ret->mode = head.mode;
    ret->uid = head.uid;
    ret->gid = head.gid;
    ret->mtime = (struct timespec){ .tv_sec = head.seconds, .tv_nsec = head.ns };
    *ret_next = head.next;
    return 0;
}

int spool_each(struct spool *s, spool_visit_fn *visit, void *ctx, struct err *e)
{
    struct spool_dir d;

    for (unsigned depth = TREE_DEPTH_MAX + 1; depth-- > 0;) {
        for (uint64_t at = s->lists_[depth].first; at != 0;) {
            int r = read_spool_record(s, at, &at, &d, e);

            if (r >= 0)
                r = visit(ctx, &d, e);
            if (r < 0)
                return r;
        }
    }
    return 0;
}
