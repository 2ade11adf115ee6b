/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/content.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

static char source[CHUNK], copy[CHUNK]; /* there is one job a process */

/* Reads at most a chunk; returns its bytes. */
static ssize_t read_chunk(int fd, char *out, off_t at, off_t end, struct err *e)
{
    size_t want = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
    ssize_t n;

    do
        n = pread(fd, out, want, at);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(e, "reading the file");
    return n ? n : err_set(e, ERR_CONFLICT, "the file became shorter while it was copied");
}

static int write_chunk(int fd, const char *p, size_t n, off_t at, struct err *e)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(fd, p + done, n - done, at + (off_t)done);

        if (k < 0 && errno != EINTR)
            return err_sys(e, "writing the file");
        done += k < 0 ? 0 : (size_t)k;
    }
    return 0;
}

/* --- pieces --- */

struct pieces {
    const struct content_counter *content;
    int from, to;
    off_t size;
    bool update; /* the target may have any content */
};

/* False if any part of the range is a hole, even if the source has zeros there. */
static bool is_same_chunk(int fd, off_t at, size_t n)
{
    return lseek(fd, at, SEEK_DATA) == at && lseek(fd, at, SEEK_HOLE) >= at + (off_t)n &&
           pread(fd, copy, n, at) == (ssize_t)n && memcmp(source, copy, n) == 0;
}

static int copy_data(const struct pieces *p, off_t at, off_t end, struct err *e)
{
    while (at < end) {
        ssize_t n = read_chunk(p->from, source, at, end, e);
        bool same = p->update && n > 0 && is_same_chunk(p->to, at, (size_t)n);
        int r = n < 0 ? (int)n : p->content->count(p->content->user, (uint64_t)n, !same, e);

        if (r >= 0 && !same)
            r = write_chunk(p->to, source, (size_t)n, at, e);
        if (r < 0)
            return r;
        at += n;
    }
    return 0;
}

static int update_hole(const struct pieces *p, off_t at, off_t end, struct err *e)
{
    off_t data = lseek(p->to, at, SEEK_DATA);

    if (data < 0 || data >= end)
        return 0;
    if (end == p->size) /* fallocate() cannot free the partial last block */
        return ftruncate(p->to, at) < 0 || ftruncate(p->to, end) < 0
                   ? err_sys(e, "truncating the file")
                   : 0;
    return fallocate(p->to, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, end - at) < 0
               ? err_sys(e, "punching a hole")
               : 0;
}

static int each_piece(const struct pieces *p, struct err *e)
{
    off_t at = 0, size = p->size;
    int r = 0;

    if (ftruncate(p->to, size) < 0)
        return err_sys(e, "setting the size of the file");
    while (r >= 0 && at < size) {
        off_t data = lseek(p->from, at, SEEK_DATA), hole;

        if (data < 0 && errno != ENXIO)
            return err_sys(e, "searching for data");
        if (data < 0 || data > size)
            data = size;
        r = data > at && p->update ? update_hole(p, at, data, e) : 0;
        if (r < 0 || data == size)
            return r;
        hole = lseek(p->from, data, SEEK_HOLE);
        if (hole < 0)
            return errno == ENXIO
                       ? err_set(e, ERR_CONFLICT, "the file became shorter while it was copied")
                       : err_sys(e, "searching for holes");
        at = hole < size ? hole : size;
        r = copy_data(p, data, at, e);
    }
    return r;
}

int content_copy(const struct content_counter *c, int from, int to, off_t size, struct err *e)
{
    const struct pieces p = { c, from, to, size, false };

    return each_piece(&p, e);
}

int content_update(const struct content_counter *c, int from, int to, off_t size, struct err *e)
{
    const struct pieces p = { c, from, to, size, true };

    return each_piece(&p, e);
}
