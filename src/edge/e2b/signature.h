/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of links to files: "v1_" and the base64 of
 * SHA-256("path:operation:user:token[:expiry]"), without padding. */
#ifndef EDGE_E2B_SIGNATURE_H
#define EDGE_E2B_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { SIGNATURE_TEXT = 48 }; /* including NUL */

struct signed_link {
    struct str path, user;
    const char *operation; /* "read", "write" */
    struct str expires;    /* as in the link; p == NULL: never expires */
};

/* Returns false if the link is too long. */
bool signature_make(const struct signed_link *l, struct str token, char ret[static SIGNATURE_TEXT]);
bool signature_good(const struct signed_link *l, struct str token, struct str signature);

/* Whether the text has the form of a signature. */
bool signature_well_formed(struct str signature);

/* Whether the link is expired at this time (wall clock); true if its expiry is not a number. */
bool signature_expired(const struct signed_link *l, int64_t wall_ns);

#endif
