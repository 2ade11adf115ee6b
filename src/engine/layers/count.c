/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/count.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "lib/tar/at.h"
#include "lib/tar/tree.h"
#include "lib/tar/walk.h"

enum { BLOCK = 512 }; /* of st_blocks, on every file system */

bool layers_name_is_in(const char *const *names, const char *name)
{
    for (; names && *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

uint64_t layers_data_bytes(const struct stat *st)
{
    uint64_t taken = (uint64_t)st->st_blocks * BLOCK, size = (uint64_t)st->st_size;

    return taken < size ? taken : size;
}

static int count_name(struct walk *w, const char *name, struct layer_info *i, struct err *e)
{
    struct stat st;
    int dir;

    if (fstatat(walk_top(w)->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(e, "reading the attributes of a file");
    i->entries++;
    i->bytes += S_ISREG(st.st_mode) ? layers_data_bytes(&st) / st.st_nlink : 0; /* its share */
    if (!S_ISDIR(st.st_mode))
        return 0;
    dir = at_open(walk_top(w)->fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0)
        return err_sys(e, "opening a directory");
    return walk_enter(w, dir, name, e);
}

int layers_count(struct layer_worker *k, int fs, struct layer_info *ret, struct err *e)
{
    uint64_t entries_max = k->job.entries_max ? k->job.entries_max : TREE_ENTRIES_DEFAULT;
    uint64_t bytes_max = k->job.bytes_max ? k->job.bytes_max : TREE_BYTES_DEFAULT;
    AUTO(walk_done) struct walk w;
    struct layer_info i = { 0 };
    const char *name;
    int r = err_wrap(e, walk_begin(&w, fs, e), "the layer");

    while (r >= 0 && (r = walk_next_any(&w, &name, e)) > 0) {
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
