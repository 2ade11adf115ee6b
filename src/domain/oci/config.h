/* An image's configuration: what its layers hold when unpacked, and how its programs are run. */
#ifndef OCI_CONFIG_H
#define OCI_CONFIG_H

#include "base/arena.h"
#include "base/err.h"
#include "json/bind.h"
#include "oci/manifest.h"

enum {
    OCI_CONFIG_MAX =
        1 << 20, /* bytes of one that is taken: each image keeps its own, all the time */
    OCI_ENV_MAX = 512,
    OCI_ARGUMENTS_MAX = 256,
};

struct oci_config {
    struct oci_platform platform;
    const char *user;     /* "", "name", "uid", "uid:gid", …: as it is written; never NULL */
    const char *workdir;  /* absolute, or "" */
    struct json_strs env; /* NAME=VALUE, each name of a kind that can be set */
    struct json_strs entrypoint, cmd;
    struct json_strs diff_ids; /* digests of the unpacked layers, the lowest first */
    const struct json *run;    /* "config", which the above is of; NULL: there is none */
};

/* -ERR_INVALID if a path or variable in it is none. */
int oci_config_read(struct str text, struct arena *a, struct oci_config *ret, struct err *e);

/* Of "config" alone, which may be NULL: how programs are run. */
int oci_config_run(const struct json *v, struct arena *a, struct oci_config *ret, struct err *e);

/* Writes one for a root file system that came without, for this machine. */
int oci_config_write(const char *diff_id, struct buf *out, struct err *e);

#endif
