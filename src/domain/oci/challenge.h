/* How a registry wants to be asked: the WWW-Authenticate header of a 401 (RFC 9110, 11.6.1). */
#ifndef OCI_CHALLENGE_H
#define OCI_CHALLENGE_H

#include "base/err.h"
#include "base/str.h"

enum { OCI_CHALLENGE_TEXT_MAX = 2048 };

struct oci_challenge {
    bool bearer; /* else basic */
    char realm[OCI_CHALLENGE_TEXT_MAX];
    char service[256];
    char scope[OCI_CHALLENGE_TEXT_MAX]; /* "": it names none */
};

/* Of several challenges the first Bearer, else the first Basic. -ERR_UNSUPPORTED for neither,
 * -ERR_INVALID for what is no challenge. */
int oci_challenge_parse(struct str header, struct oci_challenge *ret, struct err *e);

#endif
