/* SPDX-License-Identifier: Apache-2.0 */
/* Parses manifest.json of a `docker save` archive, which lists the files of each image. */
#ifndef DOMAIN_OCI_SAVED_H
#define DOMAIN_OCI_SAVED_H

#include "base/arena.h"
#include "base/err.h"
#include "lib/json/bind.h"

enum { OCI_SAVED_MAX = 256 }; /* images in one archive */

struct oci_saved {
    const char *config;      /* a file of the archive */
    struct json_strs layers; /* files of the archive, lowest first */
    struct json_strs tags;   /* its names */
};

/* *ret is on the arena. */
int oci_saved_read(struct str text, struct arena *a, const struct oci_saved **ret, size_t *ret_n,
                   struct err *e);

#endif
