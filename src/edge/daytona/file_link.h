/* Links to files, as Daytona's clients sign them with the key that they got: "v1_" and the base64
 * of HMAC-SHA-256(key, "v1:files:METHOD:PATH:EXPIRES"), in its spelling for addresses. */
#ifndef API_DAYTONA_FILE_LINK_H
#define API_DAYTONA_FILE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

struct file_link {
    const char *method;
    struct str path, expires, signature; /* as they came */
};

/* With this key, and at this moment (seconds, wall clock); "0" never expires. */
bool file_link_good(const struct file_link *l, struct str key, int64_t now_s);

#endif
