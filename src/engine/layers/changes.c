/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/layers/changes.h"

#include <fcntl.h>
#include <string.h>

#include "base/own.h"
#include "engine/layers/count.h"
#include "lib/tar/at.h"
#include "engine/storage/driver.h"

int changes_flush(struct change_records *c, struct err *e)
{
    uint64_t most = c->layer_worker->job.bytes_max;
    int r;

    if (most && c->n > most - c->flushed)
        return err_set(e, ERR_TOO_BIG, "the list of changed paths is longer than %llu MiB",
                       (unsigned long long)(most >> 20));
    r = at_write(c->layer_worker->fds[1], c->out, c->n, e);
    c->flushed += c->n;
    c->n = 0;
    return r;
}

int changes_add(struct change_records *c, enum change change, const struct stat *st,
                const char *path, struct err *e)
{
    size_t n = strlen(path) + 1;
    int r = 0;

    if (c->entries >= c->layer_worker->job.entries_max)
        return err_set(e, ERR_TOO_BIG, "there are more than %llu changes",
                       (unsigned long long)c->layer_worker->job.entries_max);
    c->entries++;
    if (c->n + n + 2 > sizeof c->out)
        r = changes_flush(c, e);
    c->out[c->n++] = (char)change;
    c->out[c->n++] = change == CHANGE_DELETED ? '-'
                     : S_ISDIR(st->st_mode)   ? 'd'
                     : S_ISREG(st->st_mode)   ? 'f'
                     : S_ISLNK(st->st_mode)   ? 'l'
                                              : 'o';
    memcpy(c->out + c->n, path, n);
    c->n += n;
    return r;
}

int changes_open_source(struct layer_worker *k, struct err *e)
{
    AUTO_CLOSE int box = -1;
    int tree;

    if (!k->job.name[0])
        return 0;
    k->fds[1] = k->fds[0];
    tree = storage_open_layer(&k->storage, k->job.name, e);
    if (tree == -(int)ERR_NOT_FOUND && k->job.box[0]) {
        box = storage_open_box(&k->storage, k->job.box, e);
        if (box < 0)
            return box;
        tree = at_open(box, STORAGE_FS, O_RDONLY | O_DIRECTORY, 0);
        if (tree < 0)
            return err_sys(e, "opening the writable layer of the sandbox");
    }
    if (tree >= 0)
        k->fds[0] = tree;
    return tree < 0 ? tree : 0;
}

bool changes_is_rewritten(const char *path)
{
    static const char etc[] = "etc/";

    return strncmp(path, etc, sizeof etc - 1) == 0 &&
           layers_name_is_in(storage_own_names, path + sizeof etc - 1);
}

bool changes_is_skipped(const char *path)
{
    return layers_name_is_in(layer_worker_skipped_names, path);
}
