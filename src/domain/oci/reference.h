/* What people call an image: [HOST[:PORT]/]PATH[:TAG][@sha256:HEX].
 *
 * The first component is a host if it has a '.' or a ':' or is "localhost". There is no host that
 * stands for all: whoever needs one and finds none asks the configuration. */
#ifndef OCI_REFERENCE_H
#define OCI_REFERENCE_H

#include "base/err.h"
#include "base/str.h"
#include "net/host.h"

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

/* -ERR_INVALID says which part is wrong and what would be right. */
int oci_reference_parse(struct str text, struct oci_reference *ret, struct err *e);

/* The one spelling under which an image is kept: what oci_reference_parse() takes again. */
void oci_reference_text(const struct oci_reference *r, char out[static OCI_REFERENCE_MAX]);

/* Where it is asked for: at its own host and path, but for docker.io, whose registry is another
 * host and keeps names of one component below "library". -ERR_INVALID: the path is too long then.
 */
struct oci_place {
    char host[OCI_HOST_MAX];
    char path[OCI_PATH_MAX];
};
int oci_reference_place(const struct oci_reference *r, struct oci_place *ret, struct err *e);

/* "sha256:" and 64 hexadecimal digits in lower case: the only digest that is known here. */
bool oci_digest_valid(struct str s);
/* Its digits. */
struct str oci_digest_hex(const char *digest);

#endif
