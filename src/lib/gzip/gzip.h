/* Packing with gzip as bytes come, piece by piece; the other way is gunzip.h. It is for answers
 * that are made while somebody waits: quick rather than small. */
#ifndef GZIP_GZIP_H
#define GZIP_GZIP_H

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
