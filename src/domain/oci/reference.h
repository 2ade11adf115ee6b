/* SPDX-License-Identifier: Apache-2.0 */
/* An image reference: [HOST[:PORT]/]PATH[:TAG][@sha256:HEX].
 *
 * The first component is a host if it has a '.' or a ':' or is "localhost". There is no default
 * host: callers that need one for a reference without a host use the configuration. */
#ifndef DOMAIN_OCI_REFERENCE_H
#define DOMAIN_OCI_REFERENCE_H

#include "base/err.h"
#include "base/str.h"
#include "lib/net/host.h"

enum {
    OCI_DIGEST_MAX = sizeof "sha256:" + 64, /* with the NUL; the same below */
    OCI_HOST_MAX = HOST_MAX + sizeof "[]:65535",
    OCI_PATH_MAX = 256,
    OCI_TAG_MAX = 129,
    OCI_REFERENCE_MAX = OCI_HOST_MAX + OCI_PATH_MAX + OCI_TAG_MAX + OCI_DIGEST_MAX,
};

struct oci_reference {
    char host[OCI_HOST_MAX]; /* as written, lower case; "": none */
    char path[OCI_PATH_MAX];
    char tag[OCI_TAG_MAX];       /* "latest" if neither tag nor digest was given; "": none */
    char digest[OCI_DIGEST_MAX]; /* "": none */
};

/* -ERR_INVALID: the message names the wrong part and the correct form. */
int oci_reference_parse(struct str text, struct oci_reference *ret, struct err *e);

/* The canonical spelling, under which an image is stored; oci_reference_parse() accepts it. */
void oci_reference_text(const struct oci_reference *r, char out[static OCI_REFERENCE_MAX]);

/* The registry and path to request the image from: those of the reference, except for docker.io,
 * whose registry has another host name, and whose names of one component are below "library".
 * -ERR_INVALID if the path is too long then. */
struct oci_place {
    char host[OCI_HOST_MAX];
    char path[OCI_PATH_MAX];
};
int oci_reference_place(const struct oci_reference *r, struct oci_place *ret, struct err *e);

/* "sha256:" and 64 hexadecimal digits in lower case: the only supported digest. */
bool oci_digest_valid(struct str s);
/* The hexadecimal digits of a digest. */
struct str oci_digest_hex(const char *digest);

#endif
