/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/ahead.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "base/disk_space.h"
#include "engine/layers/content.h"
#include "engine/layers/count.h"
#include "lib/tar/at.h"
#include "lib/tar/walk.h"

enum {
    AHEAD_FILE_MIN = 256 << 10, /* smaller files are copied as fast as they are compared */
    AHEAD_NAME_MAX = 32,
};

struct ahead {
    const struct copy_options *options;
    struct walk walk;
    dev_t dev;
    int to;
    uint64_t bytes, most;
    uint64_t entries;
    bool stopped; /* out of space, or files can be cloned */
};

static void format_ahead_name(const struct stat *st, char out[static AHEAD_NAME_MAX])
{
    snprintf(out, AHEAD_NAME_MAX, "%llx", (unsigned long long)st->st_ino);
}

/* The count function of struct content_counter. */
static int count_ahead_bytes(void *user, uint64_t n, bool written, struct err *e)
{
    struct ahead *a = user;

    a->stopped = a->stopped || n > a->most - a->bytes ||
                 room_check(a->to, a->options->free_min, a->bytes, n, e) < 0;
    if (a->stopped)
        return err_set(e, ERR_TOO_BIG, "not enough free space for a pre-copy");
    a->bytes += n;
    if (a->options->progress)
        a->options->progress(a->options->user, a->bytes, a->entries);
    return 0;
}

static void copy_file_ahead(struct ahead *a, const char *name)
{
    const struct content_counter content = { count_ahead_bytes, a };
    AUTO_CLOSE int to = -1;
    AUTO_CLOSE int from = at_open_unseen(walk_top(&a->walk)->fd, name, O_NOFOLLOW | O_NONBLOCK);
    char known[AHEAD_NAME_MAX];
    struct stat st;
    struct err e;

    if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode) || st.st_dev != a->dev ||
        layers_data_bytes(&st) < AHEAD_FILE_MIN)
        return;
    format_ahead_name(&st, known);
    to = at_open(a->to, known, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (to < 0)
        return; /* copied under another of its names */
    a->stopped = ioctl(to, FICLONE, from) == 0;
    if (a->stopped || content_copy(&content, from, to, st.st_size, &e) < 0)
        (void)unlinkat(a->to, known, 0);
}

static void copy_entry_ahead(struct ahead *a, const char *name)
{
    struct stat st;
    int dir;

    if (fstatat(walk_top(&a->walk)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    if (S_ISREG(st.st_mode))
        copy_file_ahead(a, name);
    if (!S_ISDIR(st.st_mode) || st.st_dev != a->dev)
        return;
    dir = at_open_unseen(walk_top(&a->walk)->fd, name, O_DIRECTORY);
    if (dir >= 0)
        (void)walk_enter(&a->walk, dir, name, NULL);
}

void ahead_copy(int from, int to, uint64_t most, const struct copy_options *o)
{
    static struct ahead a; /* large, and there is one job a process */
    uint64_t entries_max = o->entries_max ? o->entries_max : TREE_ENTRIES_DEFAULT;
    int first = at_open_unseen(from, ".", O_DIRECTORY);
    const char *name;
    struct stat st;

    a = (struct ahead){ .options = o, .to = to, .most = most };
    walk_init(&a.walk);
    if (first < 0 || fstat(first, &st) < 0) {
        drop_fd(&first);
        return;
    }
    a.dev = st.st_dev;
    (void)walk_enter(&a.walk, first, "", NULL);
    while (a.walk.depth > 0 && !a.stopped && a.entries < entries_max) {
        if (walk_next(&a.walk, &name, NULL) <= 0) {
            walk_leave(&a.walk);
            continue;
        }
        a.entries++;
        if (a.walk.depth > 1 || !layers_name_is_in(o->skip, name))
            copy_entry_ahead(&a, name);
    }
    walk_done(&a.walk);
}

void ahead_drop(int ahead)
{
    AUTO(walk_done) struct walk w;
    const char *name;

    if (walk_begin(&w, ahead, NULL) >= 0)
        while (walk_next(&w, &name, NULL) > 0)
            (void)unlinkat(ahead, name, 0);
}

int ahead_take(int ahead, const struct stat *of, int dir, const char *name)
{
    char known[AHEAD_NAME_MAX];

    if (ahead < 0)
        return -1;
    format_ahead_name(of, known);
    if (syscall(SYS_renameat2, ahead, known, dir, name, RENAME_NOREPLACE) < 0)
        return -1;
    return at_open(dir, name, O_RDWR | O_NOFOLLOW, 0);
}
