/* Unpacking gzip as it comes, piece by piece. What comes out is bounded by whoever takes it: a
 * piece at a time, and no more is unpacked before that is taken. */
#ifndef GZIP_GUNZIP_H
#define GZIP_GUNZIP_H

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
bool gunzip_over(const struct gunzip *g); /* its end was seen, and its checksum is right */

#endif
