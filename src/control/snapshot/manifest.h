/* What the file of a snapshot says of itself (layers/archive.h): JSON, of anybody. */
#ifndef CONTROL_MANIFEST_H
#define CONTROL_MANIFEST_H

#include "control/snapshots.h"

enum { MANIFEST_FORMAT = 2, MANIFEST_MAX = 1 << 20 };

struct manifest_layer {
    const char *measure; /* "sha256:…", layers/measure.h */
    const char *image;   /* its name, where it is an image's; NULL: it was written */
    bool left_out;       /* it is not in the file: only an image's */
};

struct manifest {
    uint32_t format;
    const char *name, *sandbox, *profile, *image, *digest;
    int64_t profile_version, created_ns, bytes, entries, pause_ns;
    struct json_map labels;
    const struct json *config;
    struct json_objects layers; /* struct manifest_layer, uppermost first: written, then images' */
};

/* Of a snapshot on these layers. */
int manifest_write(const struct snapshot *s, const struct manifest_layer *layers, size_t n,
                   struct buf *out, struct err *e);
/* Checks everything. Texts are on the arena. */
int manifest_read(struct str text, struct arena *a, struct manifest *ret, struct err *e);

#endif
