/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the arguments of a program for a record, without values that look like secrets.
 *
 * Masked are: values of names such as password, token or api_key (`--token X`, `--token=X`,
 * `TOKEN=X`, `"token": "X"`, `?token=X`), Authorization headers, passwords in URLs, options of some
 * programs that take a password (`curl -u USER:X`, `mysql -pX`), words with a known prefix
 * (`ghp_…`, `sk-…`, JSON Web Tokens), and long words of mixed letters and digits. It is a list of
 * patterns: a secret that looks like a plain word is not found. */
#ifndef DOMAIN_MODEL_MASK_H
#define DOMAIN_MODEL_MASK_H

#include <stdbool.h>

#include "base/buf.h"

enum {
    MASK_OUT_MAX = 4096,   /* bytes of all copied arguments */
    MASK_ARGS_MAX = 256,   /* copied arguments */
    MASK_IN_MAX = 8 << 10, /* bytes that are read of one argument */
};

#define MASK_TEXT "***" /* in the place of a value */

struct masked {
    struct buf text; /* the arguments, each ended by NUL */
    unsigned args;   /* copied ones, the last one perhaps in part */
    unsigned values; /* masked */
    bool truncated;
};

/* argv ends with NULL. mask: false copies values as they are. The copy is valid UTF-8: other bytes
 * are shown as \xNN. The owner calls masked_done(). */
void mask_arguments(const char *const *argv, bool mask, struct masked *ret);
void masked_done(struct masked *m);

#endif
