/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that a terminal sends. */
#ifndef CLI_KEYS_H
#define CLI_KEYS_H

#include "base/str.h"

enum key {
    KEY_NONE = 0, /* nothing that has a name here */
    KEY_TAB = '\t',
    KEY_ENTER = '\r',
    KEY_ESCAPE = 0x1b,
    KEY_UP = 0x100, /* beyond the bytes */
    KEY_DOWN,
};

/* Takes the next key from the front of the bytes, of which there is at least one. A byte that is not
 * the beginning of a known sequence is a key itself; unknown sequences are KEY_NONE. */
int keys_next(struct str *bytes);

#endif
