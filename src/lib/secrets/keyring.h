/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that secrets in the store are sealed with (lib/crypto/aead.h). They are kept in a file
 * of their own, outside of the store and its backups:
 *
 *     sandboxer-keys 1
 *     2 9f86d081…        the active key, in hexadecimal
 *     1 60303ae2…        older keys, which still open what was sealed with them
 *
 * A sealed text is "sealed:NUMBER:BASE64". It is bound to a name (table, column and id of its
 * record): at another place it does not open. Any thread may seal and open. */
#ifndef LIB_SECRETS_KEYRING_H
#define LIB_SECRETS_KEYRING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { KEYRING_TEXT_MAX = 4096, KEYRING_KEYS_MAX = 8 };

struct keyring;

/* A keyring with one new key, number 1, that is in no file: for tests. */
int keyring_new(struct keyring **ret, struct err *e);
/* Reads the text of a key file. */
int keyring_parse(struct str text, struct keyring **ret, struct err *e);
/* Reads the file `name` in `dir`, or makes it (0600, synced) if it is not there. The directory is
 * duplicated and kept for rotation. */
int keyring_open(int dir, const char *name, struct keyring **ret, struct err *e);
/* The file is the operator's: from now on it is not changed. */
void keyring_detach(struct keyring *k);
/* The directory that a rotation writes to; borrowed; -1: the file is not ours to change, or k
 * is NULL. */
int keyring_dir(const struct keyring *k);
void keyring_free(struct keyring *k); /* NULL is fine */
void keyring_freep_(struct keyring **k);

uint32_t keyring_active(const struct keyring *k);            /* the active key's number */
bool keyring_has_old(const struct keyring *k);               /* whether the file has older keys */
int keyring_write(const struct keyring *k, struct buf *out); /* the file's text */

/* Rotation, in this order, so that a crash at any point leaves a file with every key in use:
 * 1. keyring_rotate() adds a new key to the file and makes it the active one;
 * 2. the caller seals everything again;
 * 3. keyring_retire() removes the older keys from the file. They stay in memory, for readers of an
 *    older state of the store, until the process ends.
 * -ERR_UNSUPPORTED: the keys came from a file that is not ours to change. */
int keyring_rotate(struct keyring *k, struct err *e);
int keyring_retire(struct keyring *k, struct err *e);

bool sealed_is(struct str text);
/* The number of the key that it was sealed with; 0: it is not a sealed text. */
uint32_t sealed_key(struct str text);
int keyring_seal(struct keyring *k, struct str name, struct str plain, struct buf *out,
                 struct err *e);
/* -ERR_DENIED: the key is missing, or the text was changed or is at another place. */
int keyring_unseal(struct keyring *k, struct str name, struct str sealed, struct buf *out,
                   struct err *e);

#endif
