/* Signatures of E2B's links to files: "v1_" and the base64 of
 * SHA-256("path:operation:user:token[:expiry]"), without its padding. */
#ifndef API_E2B_SIGNATURE_H
#define API_E2B_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { SIGNATURE_TEXT = 48 }; /* with its NUL */

struct signed_link {
    struct str path, user;
    const char *operation; /* "read", "write" */
    struct str expires;    /* as the link has it; p == NULL: never */
};

/* False: the link is longer than any good one. */
bool signature_make(const struct signed_link *l, struct str token, char ret[static SIGNATURE_TEXT]);
bool signature_good(const struct signed_link *l, struct str token, struct str signature);

/* Whether it could be one: looks at its form alone. */
bool signature_well_formed(struct str signature);

/* Whether its time is over at this moment (wall clock); true for what is no number. */
bool signature_expired(const struct signed_link *l, int64_t wall_ns);

#endif
