/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of an exported snapshot (engine/layers/archive.h): untrusted JSON. */
#ifndef CONTROL_SNAPSHOT_MANIFEST_H
#define CONTROL_SNAPSHOT_MANIFEST_H

#include "control/snapshot/snapshots.h"

enum { MANIFEST_FORMAT = 2, MANIFEST_MAX = 1 << 20 };

struct manifest_layer {
    const char *digest; /* "sha256:…", engine/layers/digest.h */
    const char *image;  /* its name, if it is a layer of an image; NULL: a captured layer */
    bool left_out;      /* not in the file; only for layers of an image */
};

struct snapshot_manifest {
    uint32_t format;
    const char *name, *sandbox, *profile, *image, *digest;
    int64_t profile_version, created_ns, bytes, entries, pause_ns;
    struct json_map labels;
    const struct json *config;
    /* struct manifest_layer, uppermost first: captured layers, then those of the image. */
    struct json_objects layers;
};

/* Whether its layer of that index belongs to an image. */
static inline bool manifest_is_image(const struct snapshot_manifest *m, size_t i)
{
    const struct manifest_layer *l = m->layers.p;

    return l[i].image && l[i].image[0];
}

/* Writes the manifest of a snapshot with these layers. */
int snapshot_manifest_write(const struct snapshot *s, const struct manifest_layer *layers, size_t n,
                            struct buf *out, struct err *e);
/* Checks everything. The texts are on the arena. */
int snapshot_manifest_read(struct str text, struct arena *a, struct snapshot_manifest *ret,
                           struct err *e);

#endif
