/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever archive goes through, what comes out is an archive in which everything is below the
 * top. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/tar_rename.h"
#include "lib/tar/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *p;
    size_t n;
};

static void must(bool good)
{
    if (!good)
        abort();
}

static ssize_t read_input(void *ctx, void *p, size_t n)
{
    struct input *in = ctx;

    n = n < in->n ? n : in->n;
    memcpy(p, in->p, n);
    in->p += n;
    in->n -= n;
    return (ssize_t)n;
}

static bool is_below(const char *path)
{
    struct tree_path clean;
    struct str first;

    if (tree_path(str_from(path), &clean, NULL) < 0)
        return false;
    str_cut((struct str){ clean.text, clean.n }, '/', &first);
    return str_eq(first, STR("top"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_CLOSE int out = memfd_create("out", MFD_CLOEXEC);
    static struct tar_reader t;
    struct input in = { data, size };
    int r;

    if (out < 0 || tar_rename(read_input, &in, out, "top", NULL) < 0)
        return 0;
    lseek(out, 0, SEEK_SET);
    tar_reader_init_fd(&t, out);
    while ((r = tar_next(&t, NULL)) > 0) {
        must(is_below(t.entry.path));
        must(t.entry.type != TAR_HARDLINK || is_below(t.entry.link));
    }
    must(r == 0);
    return 0;
}
