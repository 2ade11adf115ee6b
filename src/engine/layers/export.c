/* SPDX-License-Identifier: Apache-2.0 */
/* LAYERS_EXPORT: writes the manifest from the control plane and the layers that it names to one
 * file. */
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "engine/layers/archive.h"

static int export_manifest(struct archive_out *o, int fd, struct err *e)
{
    static char text[ARCHIVE_MANIFEST_MAX];
    ssize_t n = pread(fd, text, sizeof text, 0);

    if (n <= 0 || n == (ssize_t)sizeof text)
        return n < 0 ? err_sys(e, "reading the manifest")
                     : err_set(e, ERR_TOO_BIG, "the manifest is empty or longer than 1 MiB");
    archive_write(o, ARCHIVE_MAGIC, strlen(ARCHIVE_MAGIC));
    archive_write_number(o, (uint64_t)n, 4);
    return archive_write(o, text, (size_t)n);
}

static int export_layer(struct layer_worker *k, struct archive_out *o, size_t i, struct err *e)
{
    AUTO_CLOSE int tree = storage_open_layer(&k->storage, k->job.below[i], e);
    int r = tree < 0 ? tree : archive_write_number(o, ARCHIVE_LAYER, 1);

    if (r >= 0)
        r = archive_write(o, k->job.against[i], ARCHIVE_DIGEST_SIZE);
    return r < 0 ? r : archive_write_tree(o, tree);
}

int layer_worker_export(struct layer_worker *k, struct err *e)
{
    struct archive_out *o = archive_out_new(k, k->fds[0], e);
    int r = export_manifest(o, k->fds[1], e);

    for (size_t i = 0; r >= 0 && i < k->job.n_below; i++)
        r = err_wrap(e, export_layer(k, o, i, e), "layer %s", k->job.below[i]);
    if (r >= 0)
        r = archive_finish(o);
    archive_out_free(o);
    return r;
}
