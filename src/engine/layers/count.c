#include "layers/count.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/own.h"
#include "tree/at.h"
#include "tree/tree.h"
#include "tree/walk.h"

enum { BLOCK = 512 }; /* of st_blocks, on every file system */

uint64_t layers_data_of(const struct stat *st)
{
    uint64_t taken = (uint64_t)st->st_blocks * BLOCK, size = (uint64_t)st->st_size;

    return taken < size ? taken : size;
}

/* Each name of a file is a part of it. */
static uint64_t size_of(const struct stat *st)
{
    return S_ISREG(st->st_mode) ? layers_data_of(st) / st->st_nlink : 0;
}

static int count_name(struct walk *w, const char *name, struct layer_info *i, struct err *e)
{
    char copy[TREE_NAME_MAX + 1];
    struct stat st;
    int dir;

    if (fstatat(walk_top(w)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "looking at a file");
    i->entries++;
    i->bytes += size_of(&st);
    if (!S_ISDIR(st.st_mode))
        return 0;
    dir = at_open(walk_top(w)->fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0)
        return err_sys(e, "opening a directory");
    snprintf(copy, sizeof copy, "%s", name);
    return walk_enter(w, dir, copy, e);
}

int layers_count(struct keeper *k, int fs, struct layer_info *ret, struct err *e)
{
    uint64_t entries_max = k->job.entries_max ? k->job.entries_max : TREE_ENTRIES_DEFAULT;
    uint64_t bytes_max = k->job.bytes_max ? k->job.bytes_max : TREE_BYTES_DEFAULT;
    AUTO(walk_done) struct walk w;
    struct layer_info i = { 0 };
    const char *name;
    int r, top = at_open(fs, ".", O_RDONLY | O_DIRECTORY, 0);

    walk_init(&w);
    r = top < 0 ? err_sys(e, "opening it") : walk_enter(&w, top, "", e);
    while (r >= 0 && w.depth > 0) {
        r = walk_next(&w, &name, e);
        if (r == 0)
            walk_leave(&w);
        else if (r > 0)
            r = count_name(&w, name, &i, e);
        if (r >= 0 && (i.entries > entries_max || i.bytes > bytes_max))
            r = err_set(e, ERR_TOO_BIG, "more than %llu files or %llu bytes",
                        (unsigned long long)entries_max, (unsigned long long)bytes_max);
        keeper_progress(k, i.bytes, i.entries);
    }
    if (r >= 0)
        *ret = i;
    return r;
}
