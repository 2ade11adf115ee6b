/* SPDX-License-Identifier: Apache-2.0 */
/* What a secret looks like: names of values, beginnings of words, options of programs. Private to
 * mask.c. */
#ifndef DOMAIN_MODEL_MASK_WORDS_H
#define DOMAIN_MODEL_MASK_WORDS_H

#include <stdbool.h>

#include "base/str.h"

/* Whether a value of this name is a secret: "--db-password", "API_KEY", "X-Auth-Token". */
bool mask_is_secret_name(struct str name);
/* Whether the word is the scheme of an Authorization header: "Bearer". */
bool mask_is_scheme(struct str word);
/* The length of the part of a secret that is shown, such as "ghp_"; SIZE_MAX: the word is no
 * secret. */
size_t mask_secret_word(struct str word);

/* An option of a program that takes a secret. */
struct mask_option {
    const char *program, *option;
    bool glued;  /* the value follows without a blank */
    bool next;   /* … or is the next word */
    bool behind; /* the value is USER:SECRET */
};
/* The last part of a path is a program that has such options. */
bool mask_is_program(struct str word);
/* The option of the program that the word is, or begins with; NULL: none. */
const struct mask_option *mask_find_option(struct str program, struct str word);

/* The last part of a path. */
struct str mask_last_part(struct str path);

#endif
