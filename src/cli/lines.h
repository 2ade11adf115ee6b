/* SPDX-License-Identifier: Apache-2.0 */
/* Lines out of pieces that end anywhere, as NDJSON arrives. */
#ifndef CLI_LINES_H
#define CLI_LINES_H

#include "base/buf.h"

enum { LINES_MAX = 4 << 20 }; /* bytes of one line */

struct lines {
    struct buf kept_; /* input that was not returned yet */
    size_t taken_;    /* how much of it has */
};

#define LINES_INIT ((struct lines){ .kept_ = BUF_INIT(LINES_MAX) })

void lines_done(struct lines *l);

/* -ERR_TOO_BIG if a line is longer than LINES_MAX. */
int lines_feed(struct lines *l, struct str piece, struct err *e);

/* The next whole line without its end, borrowed until the next feed; skips empty lines. False: no
 * whole line yet. */
bool lines_next(struct lines *l, struct str *ret);

/* Something is left that never became a line. */
bool lines_torn(const struct lines *l);

#endif
