/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow, up to a ceiling that cannot be left out. An append that would pass the ceiling
 * leaves the buffer as it was and returns -ERR_TOO_BIG. Running out of memory below the ceiling
 * aborts. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct buf {
    char *p; /* NUL-terminated whenever it is not NULL; the NUL is not counted in n */
    size_t n;
    size_t cap_;
    size_t max;
};

#define BUF_INIT(ceiling) ((struct buf){ .max = (ceiling) })

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b); /* frees; the ceiling stays, so the buffer can be used again */

int buf_add(struct buf *b, struct str s);
int buf_add_c(struct buf *b, char c);
int buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_addv(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/* Room for n more bytes at the end, to be filled by the caller and then counted with buf_grew(). */
int buf_room(struct buf *b, size_t n, char **ret);
void buf_grew(struct buf *b, size_t n);

void buf_drop(struct buf *b, size_t n);  /* forgets the first n bytes */
void buf_clear(struct buf *b);           /* n = 0, memory stays */
struct str buf_str(const struct buf *b); /* borrowed until the next change */

#endif
