/* manifest.json of a `docker save` archive: which files of the archive are an image's parts. */
#ifndef OCI_SAVED_H
#define OCI_SAVED_H

#include "base/arena.h"
#include "base/err.h"
#include "json/bind.h"

enum { OCI_SAVED_MAX = 256 }; /* images in one archive */

struct oci_saved {
    const char *config;      /* a file of the archive */
    struct json_strs layers; /* the same, the lowest first */
    struct json_strs tags;   /* what it is called */
};

/* *ret are on the arena. */
int oci_saved_read(struct str text, struct arena *a, const struct oci_saved **ret, size_t *ret_n,
                   struct err *e);

#endif
