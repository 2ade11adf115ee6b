/* An image's documents, as a registry or an archive has them: the index of its platforms, and the
 * manifest that names its parts. OCI image format 1 and docker's schema 2, which differ in names
 * only. Everything is on the arena; nothing in a document is believed but what its digest says. */
#ifndef OCI_MANIFEST_H
#define OCI_MANIFEST_H

#include "base/arena.h"
#include "base/err.h"
#include "json/bind.h"
#include "oci/reference.h"

enum {
    OCI_DOCUMENT_MAX = 4 << 20, /* bytes of one document */
    OCI_ARENA_MAX = 32 << 20,   /* that a parsed one takes at most */
    OCI_LAYERS_MAX = 136,       /* as many as docker makes, 127, and what commits add */
    OCI_MANIFESTS_MAX = 1024,   /* in an index */
};

struct oci_platform {
    const char *os, *architecture, *variant; /* NULL: not said */
};

struct oci_descriptor {
    const char *media_type; /* NULL: not said */
    char digest[OCI_DIGEST_MAX];
    uint64_t size;
    struct oci_platform platform;
};

struct oci_index {
    const struct oci_descriptor *manifests;
    const char *const *names; /* beside them: what the archive calls it, or NULL */
    size_t n;
};

struct oci_manifest {
    struct oci_descriptor config;
    const struct oci_descriptor *layers; /* the lowest first */
    size_t n;
};

enum oci_document { OCI_INDEX, OCI_MANIFEST };

/* For an Accept header: all that is understood. */
#define OCI_ACCEPT                                                                                 \
    "application/vnd.oci.image.index.v1+json, "                                                    \
    "application/vnd.docker.distribution.manifest.list.v2+json, "                                  \
    "application/vnd.oci.image.manifest.v1+json, "                                                 \
    "application/vnd.docker.distribution.manifest.v2+json"

/* What a document is: by what its own mediaType says, else by what is in it. */
int oci_document_kind(struct str text, struct arena *a, enum oci_document *ret, struct err *e);

int oci_index_read(struct str text, struct arena *a, struct oci_index *ret, struct err *e);
int oci_manifest_read(struct str text, struct arena *a, struct oci_manifest *ret, struct err *e);

/* "linux/amd64", "linux/arm/v7". The slices of *ret are on the arena. */
int oci_platform_parse(struct str text, struct arena *a, struct oci_platform *ret, struct err *e);
/* This machine. */
struct oci_platform oci_platform_here(void);

/* The manifest for a platform; NULL: there is none. An entry without a platform is taken only if it
 * is the only one. */
const struct oci_descriptor *oci_index_choose(const struct oci_index *x,
                                              const struct oci_platform *p);

#endif
