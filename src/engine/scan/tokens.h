/* SPDX-License-Identifier: Apache-2.0 */
/* Python, JavaScript and C as tokens: names, strings as they are when the program runs, numbers,
 * signs. Comments are left out. Any bytes give tokens. */
#ifndef ENGINE_SCAN_TOKENS_H
#define ENGINE_SCAN_TOKENS_H

#include "base/buf.h"
#include "engine/scan/internal.h"

enum token_kind { TOKEN_END, TOKEN_NAME, TOKEN_STRING, TOKEN_NUMBER, TOKEN_SIGN, TOKEN_LINE };

struct scan_token {
    enum token_kind kind;
    struct str text; /* borrowed until the next token; of a number, its digits */
    bool holds;      /* a string in which values are put: f'…{x}…', `…${x}…` */
    unsigned indent; /* blanks at the beginning of its line */
    struct scan_place at;
};

struct scan_tokens {
    struct str t;
    enum scan_language language;
    size_t at, line_from;
    uint32_t line;
    unsigned indent_;
    bool value_; /* the last token ends a value, so that a slash divides */
    struct buf string_;
};

void tokens_init(struct scan_tokens *k, enum scan_language language, struct str text);
void tokens_done(struct scan_tokens *k);
void tokens_next(struct scan_tokens *k, struct scan_token *ret);

/* The next byte that is not blank, without taking it. */
char tokens_peek(const struct scan_tokens *k);

#endif
