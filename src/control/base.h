/* A stored image, as whatever stands on it remembers it: the image of that name may be gone
 * meanwhile, or another one. */
#ifndef CONTROL_BASE_H
#define CONTROL_BASE_H

#include "extensions/extension.h"
#include "json/bind.h"

struct image;

/* The most that is remembered of how programs are run. */
enum { BASE_CONFIG_MAX = 32 << 10 };

struct base {
    struct json_strs layers;   /* of the storage, uppermost first; none: no stored image */
    const char *ref, *digest;  /* what it was called, and its manifest's; NULL: not known */
    const struct json *config; /* "config" of its configuration; NULL: it says nothing */
};

/* Everything is on the arena. */
int base_of_image(const struct image *im, struct arena *a, struct base *ret, struct err *e);
int base_copy(const struct base *from, struct arena *a, struct base *ret, struct err *e);

/* As JSON, and back; empty: none. */
int base_write_config(const struct base *b, struct buf *out, struct err *e);
int base_read_config(struct str text, struct arena *a, const struct json **ret, struct err *e);

/* What a backend needs of it. The lists are on the arena, the rest is borrowed. */
int base_for_box(const struct base *b, struct arena *a, struct ext_image *ret, struct err *e);

#endif
