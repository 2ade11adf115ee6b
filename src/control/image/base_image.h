/* SPDX-License-Identifier: Apache-2.0 */
/* A stored image as its sandboxes and snapshots remember it: the image of that name may be removed
 * or replaced meanwhile. */
#ifndef CONTROL_IMAGE_BASE_IMAGE_H
#define CONTROL_IMAGE_BASE_IMAGE_H

#include "backends/backend.h"
#include "lib/json/bind.h"

struct image;

/* Maximum size of the remembered run configuration. */
enum { BASE_CONFIG_MAX = 32 << 10 };

struct base_image {
    struct json_strs layers;   /* in the storage, uppermost first; none: no stored image */
    const char *ref, *digest;  /* its name, and the digest of its manifest; NULL: unknown */
    const struct json *config; /* "config" of its configuration; NULL: none */
};

/* Everything is copied to the arena. */
int base_image_of(const struct image *im, struct arena *a, struct base_image *ret, struct err *e);
int base_image_copy(const struct base_image *from, struct arena *a, struct base_image *ret,
                    struct err *e);

/* To and from JSON; empty: none. */
int base_image_write_config(const struct base_image *b, struct buf *out, struct err *e);
int base_image_read_config(struct str text, struct arena *a, const struct json **ret,
                           struct err *e);

/* The part that a backend needs. The lists are on the arena, the rest is borrowed. */
int base_image_for_box(const struct base_image *b, struct arena *a, struct backend_image *ret,
                       struct err *e);

#endif
