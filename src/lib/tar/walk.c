/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tar/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "lib/tar/at.h"

/* struct linux_dirent64 of getdents64(), which glibc and musl do not both declare. */
struct name_record {
    uint64_t inode;
    int64_t next; /* for lseek() */
    uint16_t size;
    uint8_t type;
    char name[];
};

void walk_init(struct walk *w)
{
    w->depth = 0;
    w->seek_ = false;
    w->at_ = w->n_ = 0;
}

void walk_done(struct walk *w)
{
    while (w->depth > 0)
        walk_leave(w);
}

int walk_begin(struct walk *w, int dir, struct err *e)
{
    int fd = at_open(dir, ".", O_RDONLY | O_DIRECTORY, 0);

    walk_init(w);
    return fd < 0 ? err_sys(e, "opening the directory") : walk_enter(w, fd, "", e);
}

struct walk_level *walk_top(struct walk *w)
{
    return &w->levels[w->depth - 1];
}

int walk_enter(struct walk *w, int fd, const char *name, struct err *e)
{
    AUTO_CLOSE int owned = fd;
    struct walk_level *l = &w->levels[w->depth];

    if (w->depth == TREE_DEPTH_MAX)
        return err_set(e, ERR_TOO_BIG, "more than %d directories inside each other",
                       TREE_DEPTH_MAX);
    if (!str_copy(str_from(name), l->name, sizeof l->name))
        return err_set(e, ERR_TOO_BIG, "a name is longer than %d bytes", TREE_NAME_MAX);
    l->fd = take_fd(&owned);
    l->resume = 0;
    w->depth++;
    w->seek_ = false;
    w->at_ = w->n_ = 0;
    return 0;
}

void walk_leave(struct walk *w)
{
    drop_fd(&walk_top(w)->fd);
    w->depth--;
    w->seek_ = true;
    w->at_ = w->n_ = 0;
}

static int fill_names(struct walk *w, struct err *e)
{
    const struct walk_level *l = walk_top(w);
    long n;

    if (w->seek_ && lseek(l->fd, l->resume, SEEK_SET) < 0)
        return err_sys(e, "reading the directory");
    w->seek_ = false;
    n = syscall(SYS_getdents64, l->fd, w->names_, sizeof w->names_);
    if (n < 0 && errno == ENOENT) /* removed while we look */
        n = 0;
    if (n < 0)
        return err_sys(e, "reading the directory");
    w->at_ = 0;
    w->n_ = (size_t)n;
    return n > 0;
}

int walk_next(struct walk *w, const char **ret, struct err *e)
{
    for (;;) {
        const struct name_record *d;
        int r = w->at_ < w->n_ ? 1 : fill_names(w, e);

        if (r <= 0)
            return r;
        d = (const struct name_record *)(const void *)(w->names_ + w->at_);
        w->at_ += d->size;
        walk_top(w)->resume = d->next;
        if (strcmp(d->name, ".") != 0 && strcmp(d->name, "..") != 0) {
            *ret = d->name;
            return 1;
        }
    }
}

int walk_next_any(struct walk *w, const char **ret, struct err *e)
{
    int r = 0;

    while (w->depth > 0 && (r = walk_next(w, ret, e)) == 0)
        walk_leave(w);
    return r;
}
