/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming decompression of gzip. The consumer bounds the output: the next piece is unpacked only
 * after the consumer has taken the one before. */
#ifndef LIB_GZIP_GUNZIP_H
#define LIB_GZIP_GUNZIP_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/str.h"

struct gunzip; /* NULL is fine for gunzip_free() */

struct gunzip *gunzip_new(void);
void gunzip_free(struct gunzip *g);

/* Takes bytes from the start of *in and unpacks up to `cap` bytes to out: how many; 0: more has to
 * come, or it is over. */
ssize_t gunzip_some(struct gunzip *g, struct str *in, char *out, size_t cap, struct err *e);
bool gunzip_is_finished(const struct gunzip *g); /* its end was seen, and its checksum is right */

#endif
