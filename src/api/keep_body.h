/* A body that is kept in a file as it comes. */
#ifndef API_KEEP_BODY_H
#define API_KEEP_BODY_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

/* -ERR_TOO_BIG where it would have more than `max` bytes, images.max_bytes. */
int keep_body(int fd, uint64_t *size, uint64_t max, struct str data, struct err *e);

#endif
