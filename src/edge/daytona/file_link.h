/* SPDX-License-Identifier: Apache-2.0 */
/* Links to files that clients sign with their signing key: "v1_" and the base64url of
 * HMAC-SHA-256(key, "v1:files:METHOD:PATH:EXPIRES"). */
#ifndef EDGE_DAYTONA_FILE_LINK_H
#define EDGE_DAYTONA_FILE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct file_link {
    const char *method;
    struct str path, expires, signature; /* as in the link */
};

/* Whether the link is valid for this key and time (seconds, wall clock); "0" never expires. */
bool file_link_good(const struct file_link *l, struct str key, int64_t now_s);

#endif
