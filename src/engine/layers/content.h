/* What is in a file, with its holes. */
#ifndef LAYERS_CONTENT_H
#define LAYERS_CONTENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Told of every piece before it is there; may refuse it. */
struct content {
    int (*count)(void *user, uint64_t n, bool written, struct err *e);
    void *user;
};

/* Into an empty file. What is not there in the source takes no place in the copy. Of a source that
 * changes meanwhile it may be anything of that length, or -ERR_CONFLICT. */
int content_copy(const struct content *c, int from, int to, off_t size, struct err *e);
/* Into a file with anything in it: the result is the same, and only what differs is written. */
int content_mend(const struct content *c, int from, int to, off_t size, struct err *e);

#endif
