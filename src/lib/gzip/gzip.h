/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming compression with gzip; gunzip.h decompresses. It is tuned for responses to waiting
 * clients: speed before size. */
#ifndef LIB_GZIP_GZIP_H
#define LIB_GZIP_GZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct gzip; /* NULL is fine for gzip_free() */

struct gzip *gzip_new(void);
void gzip_free(struct gzip *g);

/* Takes bytes from the start of *in and writes up to `cap` bytes of what is packed to out: how
 * many. Less than cap: all of *in was taken, and with `last` that was the end of it. */
size_t gzip_some(struct gzip *g, struct str *in, bool last, char *out, size_t cap);

#endif
