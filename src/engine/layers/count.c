/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/count.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/own.h"
#include "lib/tar/at.h"
#include "lib/tar/tree.h"
#include "lib/tar/walk.h"

enum { BLOCK = 512 }; /* of st_blocks, on every file system */

uint64_t layers_data_bytes(const struct stat *st)
{
    uint64_t taken = (uint64_t)st->st_blocks * BLOCK, size = (uint64_t)st->st_size;

    return taken < size ? taken : size;
}

/* The share of one name in the data of a file with several names. */
static uint64_t data_share_of_name(const struct stat *st)
{
    return S_ISREG(st->st_mode) ? layers_data_bytes(st) / st->st_nlink : 0;
}

static int count_name(struct walk *w, const char *name, struct layer_info *i, struct err *e)
{
    char copy[TREE_NAME_MAX + 1];
    struct stat st;
    int dir;

    if (fstatat(walk_top(w)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "reading the attributes of a file");
    i->entries++;
    i->bytes += data_share_of_name(&st);
    if (!S_ISDIR(st.st_mode))
        return 0;
    dir = at_open(walk_top(w)->fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0)
        return err_sys(e, "opening a directory");
    snprintf(copy, sizeof copy, "%s", name);
    return walk_enter(w, dir, copy, e);
}

int layers_count(struct layer_worker *k, int fs, struct layer_info *ret, struct err *e)
{
    uint64_t entries_max = k->job.entries_max ? k->job.entries_max : TREE_ENTRIES_DEFAULT;
    uint64_t bytes_max = k->job.bytes_max ? k->job.bytes_max : TREE_BYTES_DEFAULT;
    AUTO(walk_done) struct walk w;
    struct layer_info i = { 0 };
    const char *name;
    int r, top = at_open(fs, ".", O_RDONLY | O_DIRECTORY, 0);

    walk_init(&w);
    r = top < 0 ? err_sys(e, "opening the layer") : walk_enter(&w, top, "", e);
    while (r >= 0 && w.depth > 0) {
        r = walk_next(&w, &name, e);
        if (r == 0)
            walk_leave(&w);
        else if (r > 0)
            r = count_name(&w, name, &i, e);
        if (r >= 0 && (i.entries > entries_max || i.bytes > bytes_max))
            r = err_set(e, ERR_TOO_BIG, "the layer has more than %llu files or %llu bytes",
                        (unsigned long long)entries_max, (unsigned long long)bytes_max);
        layer_worker_report_progress(k, i.bytes, i.entries);
    }
    if (r >= 0)
        *ret = i;
    return r;
}
