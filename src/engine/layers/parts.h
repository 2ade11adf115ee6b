/* What an archive of images holds: a record for each of its files, as a keeper tells it
 * (LAYERS_SIFT). The files stay where they are, as parts of the archive.
 *
 * Who writes this has read an archive that anybody may have made: the other side believes no more
 * of it than parts_check() does. */
#ifndef LAYERS_PARTS_H
#define LAYERS_PARTS_H

#include <stdint.h>

#include "base/err.h"
#include "layers/measure.h"

enum { PARTS_MAX = 1024, PART_NAME_MAX = 256 };

enum parts_kind {
    PARTS_ROOT = 1, /* a root file system: one part, without a name, which is all of it */
    PARTS_LAYOUT,   /* an OCI layout */
    PARTS_SAVED,    /* what `docker save` writes */
    PARTS_KIND_END_,
};

struct part_record {
    char name[PART_NAME_MAX]; /* as of tree/path.h */
    char digest[MEASURE_MAX]; /* of its bytes: "sha256:…" */
    uint64_t at, size;        /* where they are in the archive */
};

struct parts {
    uint32_t kind, n;
    struct part_record p[PARTS_MAX];
};

/* Of what was read of such a file, about an archive of that many bytes: names and digests end and
 * are such, nothing is outside the archive. */
int parts_check(const struct parts *parts, size_t bytes, uint64_t archive, struct err *e);

/* What a keeper does: reads the archive and fills in what it holds. `progress` is called now and
 * then, with how many bytes of it were read. */
typedef void parts_progress_fn(void *ctx, uint64_t bytes);
int parts_find(int archive, parts_progress_fn *progress, void *ctx, struct parts *ret,
               struct err *e);

#endif
