/* SPDX-License-Identifier: Apache-2.0 */
/* An image's documents from a registry or an archive: the index of its platforms, and the manifest
 * that names its parts. Accepts OCI image format 1 and docker's schema 2, which differ only in
 * names. All results are on the arena. Only digests are trusted, not the contents of a document. */
#ifndef DOMAIN_OCI_MANIFEST_H
#define DOMAIN_OCI_MANIFEST_H

#include "base/arena.h"
#include "base/err.h"
#include "lib/json/bind.h"
#include "domain/oci/reference.h"

enum {
    OCI_DOCUMENT_MAX = 4 << 20, /* bytes of one document */
    OCI_ARENA_MAX = 32 << 20,   /* memory of a parsed document */
    OCI_LAYERS_MAX = 136,       /* docker's limit of 127, plus layers of commits */
    OCI_MANIFESTS_MAX = 1024,   /* in an index */
};

struct oci_platform {
    const char *os, *architecture, *variant; /* NULL: not given */
};

struct oci_descriptor {
    const char *media_type; /* NULL: not given */
    char digest[OCI_DIGEST_MAX];
    uint64_t size;
    struct oci_platform platform;
};

struct oci_index {
    const struct oci_descriptor *manifests;
    const char *const *names; /* parallel to them: the names in the archive, or NULL */
    size_t n;
};

struct oci_manifest {
    struct oci_descriptor config;
    const struct oci_descriptor *layers; /* the lowest first */
    size_t n;
};

enum oci_document { OCI_INDEX, OCI_MANIFEST };

/* For an Accept header: all supported types. */
#define OCI_ACCEPT                                                                                 \
    "application/vnd.oci.image.index.v1+json, "                                                    \
    "application/vnd.docker.distribution.manifest.list.v2+json, "                                  \
    "application/vnd.oci.image.manifest.v1+json, "                                                 \
    "application/vnd.docker.distribution.manifest.v2+json"

/* The kind of a document: from its mediaType, else from its members. */
int oci_document_kind(struct str text, struct arena *a, enum oci_document *ret, struct err *e);

int oci_index_read(struct str text, struct arena *a, struct oci_index *ret, struct err *e);
int oci_manifest_read(struct str text, struct arena *a, struct oci_manifest *ret, struct err *e);

/* Parses "linux/amd64", "linux/arm/v7". The texts of *ret are on the arena. */
int oci_platform_parse(struct str text, struct arena *a, struct oci_platform *ret, struct err *e);
/* The platform of this machine. */
struct oci_platform oci_platform_here(void);

/* Returns the manifest for a platform; NULL if the index has none for it. An entry without a
 * platform is chosen only if it is the only entry. */
const struct oci_descriptor *oci_index_choose(const struct oci_index *x,
                                              const struct oci_platform *p);

#endif
