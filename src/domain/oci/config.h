/* SPDX-License-Identifier: Apache-2.0 */
/* An image's configuration: the digests of its unpacked layers and the defaults for its
 * programs. */
#ifndef DOMAIN_OCI_CONFIG_H
#define DOMAIN_OCI_CONFIG_H

#include "base/arena.h"
#include "base/err.h"
#include "lib/json/bind.h"
#include "domain/oci/manifest.h"

enum {
    OCI_CONFIG_MAX = 1 << 20, /* limit of an accepted configuration: it is stored with each image */
    OCI_ENV_MAX = 512,
    OCI_ARGUMENTS_MAX = 256,
};

struct oci_config {
    struct oci_platform platform;
    const char *user;     /* "", "name", "uid", "uid:gid", …: unchanged; never NULL */
    const char *workdir;  /* absolute, or "" */
    struct json_strs env; /* NAME=VALUE, with valid names */
    struct json_strs entrypoint, cmd;
    struct json_strs diff_ids; /* digests of the unpacked layers, the lowest first */
    const struct json *run;    /* "config", the source of the fields above; NULL if absent */
};

/* -ERR_INVALID if it contains an invalid path or variable. */
int oci_config_read(struct str text, struct arena *a, struct oci_config *ret, struct err *e);

/* Reads only "config", the defaults for programs; v may be NULL. */
int oci_config_run(const struct json *v, struct arena *a, struct oci_config *ret, struct err *e);

/* Writes a configuration for this machine's platform, for a root file system without one. */
int oci_config_write(const char *diff_id, struct buf *out, struct err *e);

#endif
