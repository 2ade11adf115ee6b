/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming compression and decompression with gzip. Compression is tuned for responses to waiting
 * clients: speed before size. */
#ifndef LIB_GZIP_GZIP_H
#define LIB_GZIP_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/str.h"
#include "base/err.h"

struct gzip; /* NULL is fine for gzip_free() */

struct gzip *gzip_new(void);
void gzip_free(struct gzip *g);

/* Takes bytes from the start of *in and writes up to `cap` bytes of what is packed to out: how
 * many. Less than cap: all of *in was taken, and with `last` that was the end of it. */
size_t gzip_some(struct gzip *g, struct str *in, bool last, char *out, size_t cap);

/* Streaming decompression of gzip. The consumer bounds the output: the next piece is unpacked only
 * after the consumer has taken the one before. */

struct gunzip; /* NULL is fine for gunzip_free() */

struct gunzip *gunzip_new(void);
void gunzip_free(struct gunzip *g);

/* Takes bytes from the start of *in and unpacks up to `cap` bytes to out: how many; 0: more has to
 * come, or it is over. */
ssize_t gunzip_some(struct gunzip *g, struct str *in, char *out, size_t cap, struct err *e);
bool gunzip_is_finished(const struct gunzip *g); /* its end was seen, and its checksum is right */

#endif
