/* SPDX-License-Identifier: Apache-2.0 */
/* The files of an archive of images: a record for each, as a layer worker reports them
 * (LAYERS_SIFT). The files stay in the archive.
 *
 * The layer worker has parsed an untrusted archive: the receiver trusts nothing beyond
 * parts_check(). */
#ifndef ENGINE_LAYERS_PARTS_H
#define ENGINE_LAYERS_PARTS_H

#include <stdint.h>

#include "base/err.h"
#include "engine/layers/digest.h"

enum { PARTS_MAX = 1024, PART_NAME_MAX = 256 };

enum parts_kind {
    PARTS_ROOT = 1, /* a root file system: one part without a name, the whole archive */
    PARTS_LAYOUT,   /* an OCI layout */
    PARTS_SAVED,    /* the format of `docker save` */
    PARTS_KIND_END_,
};

struct part_record {
    char name[PART_NAME_MAX];     /* in the form of lib/tar/path.h */
    char digest[DIGEST_TEXT_MAX]; /* of its bytes: "sha256:…" */
    uint64_t at, size;            /* where they are in the archive */
};

struct archive_parts {
    uint32_t kind, n;
    struct part_record p[PARTS_MAX];
};

/* Checks a list that was read for an archive of that many bytes: names and digests are valid, and
 * all parts are inside the archive. */
int parts_check(const struct archive_parts *parts, size_t bytes, uint64_t archive, struct err *e);

/* Reads the archive and lists its parts; called in a layer worker. `progress` is called from time
 * to time with the number of bytes read. */
typedef void parts_progress_fn(void *ctx, uint64_t bytes);
int parts_find(int archive, parts_progress_fn *progress, void *ctx, struct archive_parts *ret,
               struct err *e);

#endif
