/* A body that is kept in a file as it comes. */
#ifndef API_KEEP_BODY_H
#define API_KEEP_BODY_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "config/config.h"

/* -ERR_TOO_BIG where it would have more than images.max_bytes, or leave less than images.free_min
 * on the disk. */
int keep_body(int fd, uint64_t *size, const struct config *config, struct str data, struct err *e);

#endif
