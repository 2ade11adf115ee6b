/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the authentication challenge of a registry: the WWW-Authenticate header of a 401 (RFC
 * 9110, 11.6.1). */
#ifndef DOMAIN_OCI_CHALLENGE_H
#define DOMAIN_OCI_CHALLENGE_H

#include "base/err.h"
#include "base/str.h"

enum { OCI_CHALLENGE_TEXT_MAX = 2048 };

struct oci_challenge {
    bool bearer; /* else basic */
    char realm[OCI_CHALLENGE_TEXT_MAX];
    char service[256];
    char scope[OCI_CHALLENGE_TEXT_MAX]; /* "": absent */
};

/* Returns the first Bearer challenge, else the first Basic. -ERR_UNSUPPORTED if there is neither,
 * -ERR_INVALID for a malformed header. */
int oci_challenge_parse(struct str header, struct oci_challenge *ret, struct err *e);

#endif
