/* SPDX-License-Identifier: Apache-2.0 */
/* Environment variables inside of a JSON text: the values of "env" objects at one depth are sealed,
 * the rest of the text stays as it is.
 *
 *     {"env":{"KEY":"secret"},"ttl":60}   →   {"env":"sealed:1:…","ttl":60} */
#ifndef LIB_SECRETS_ENV_H
#define LIB_SECRETS_ENV_H

#include "lib/secrets/keyring.h"

/* All three append the new text to `out`. `depth` is 1 for a member of the outermost object. Text
 * that is not JSON is copied. A text without variables stays as it is. */
int env_seal(struct keyring *k, struct str name, struct str text, unsigned depth, struct buf *out,
             struct err *e);
/* *ret_lost: variables could not be opened (the key is lost) and are left out. */
int env_unseal(struct keyring *k, struct str name, struct str text, unsigned depth, struct buf *out,
               bool *ret_lost, struct err *e);
/* Leaves the variables out, sealed or not. */
int env_erase(struct str text, unsigned depth, struct buf *out);

/* The value of "env" at this depth: where it starts and how long it is. False: none, or `{}`. */
bool env_find(struct str text, unsigned depth, struct str *ret);

#endif
