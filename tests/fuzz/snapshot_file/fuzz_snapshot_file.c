/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says what the rest is: a manifest, or a tree, which is read without being made and
 * then made. Names that are taken are single ones: all that is made is beneath the directory. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "control/snapshot/manifest.h"
#include "engine/layers/archive.h"
#include "domain/oci/reference.h"
#include "lib/tar/remove.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void try_manifest(struct str text)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(16 << 20);
    const struct manifest_layer *l;
    struct snapshot_manifest m;
    struct err e;

    if (snapshot_manifest_read(text, &a, &m, &e) < 0)
        return;
    l = m.layers.p;
    must(m.layers.n > 0 && m.layers.n <= LAYERS_STACK_MAX && !(l[0].image && l[0].image[0]));
    for (size_t i = 0; i < m.layers.n; i++)
        must(oci_digest_valid(str_from(l[i].digest)));
}

static int read_tree(struct str data, int tree, int links)
{
    static struct layer_worker k;
    AUTO_CLOSE int fd = memfd_create("tree", MFD_CLOEXEC);
    struct archive_in *in;
    struct err e;
    int r;

    must(fd >= 0 && write(fd, data.p, data.n) == (ssize_t)data.n && lseek(fd, 0, SEEK_SET) == 0);
    k = (struct layer_worker){ .sock = -1,
                               .reported_ns = INT64_MAX,
                               .storage = { .dir = fd, .layers = -1, .boxes = -1, .tmp = -1 } };
    k.job.bytes_max = 1 << 20;
    k.job.entries_max = 1000;
    in = archive_in_new(&k, fd);
    r = archive_read_tree(in, tree, links, &e);
    archive_in_free(in);
    return r;
}

/* What can be read can be made, unless two things have one name. */
static void try_tree(struct str data)
{
    char top[] = "/tmp/fuzz-snapshot-XXXXXX";
    AUTO_CLOSE int dir = -1, tree = -1, links = -1;

    if (read_tree(data, -1, -1) < 0)
        return;
    must(mkdtemp(top) != NULL);
    dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(mkdirat(dir, "tree", 0700) == 0 && mkdirat(dir, "links", 0700) == 0);
    tree = openat(dir, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    links = openat(dir, "links", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)read_tree(data, tree, links);
    must(tree_remove(dir, "tree", NULL) >= 0 && tree_remove(dir, "links", NULL) >= 0);
    must(rmdir(top) == 0); /* nothing else is there */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest;

    if (size == 0)
        return 0;
    rest = (struct str){ (const char *)data + 1, size - 1 };
    if (data[0] == 'm')
        try_manifest(rest);
    else
        try_tree(rest);
    return 0;
}
