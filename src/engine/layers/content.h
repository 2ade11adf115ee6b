/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the content of a file and its holes. */
#ifndef ENGINE_LAYERS_CONTENT_H
#define ENGINE_LAYERS_CONTENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Called for every piece before it is written; may refuse it. */
struct content_counter {
    int (*count)(void *user, uint64_t n, bool written, struct err *e);
    void *user;
};

/* Copies into an empty file; holes stay holes. If the source changes meanwhile, the result is
 * arbitrary content of that length, or -ERR_CONFLICT. */
int content_copy(const struct content_counter *c, int from, int to, off_t size, struct err *e);
/* Makes a file with any content equal to the source; writes only the differences. */
int content_update(const struct content_counter *c, int from, int to, off_t size, struct err *e);

#endif
