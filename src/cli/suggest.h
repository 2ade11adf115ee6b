/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the words that a person may have meant with a word that is unknown.
 *
 *     struct suggestion s = { .typed = word };
 *
 *     suggestion_add(&s, STR("list"), STR("list"));
 *     suggestion_add(&s, STR("ls"), STR("list"));
 *     suggestion_write(&s, "", text, sizeof text);
 */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include "base/str.h"

enum { SUGGESTIONS_MAX = 3, SUGGESTION_TEXT_MAX = 256 };

struct suggestion {
    struct str typed;
    struct str words[SUGGESTIONS_MAX]; /* equally close; borrowed */
    size_t n;
    unsigned distance; /* of these */
};

/* Considers a spelling; `word` is suggested if it is close. */
void suggestion_add(struct suggestion *s, struct str spelling, struct str word);

/* "; did you mean '--list' or '--all'?", with the prefix "--"; "" without a suggestion. */
void suggestion_write(const struct suggestion *s, const char *prefix, char *out, size_t cap);

#endif
