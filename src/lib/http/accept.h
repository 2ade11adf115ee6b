/* SPDX-License-Identifier: Apache-2.0 */
/* The handshake's answer: proof that the other end speaks WebSocket, not a secret. Its SHA-1 is
 * part of the protocol's definition and secures nothing, so the static programs need no library for
 * it. */
#ifndef LIB_HTTP_ACCEPT_H
#define LIB_HTTP_ACCEPT_H

#include <stdbool.h>

#include "base/str.h"

enum { ACCEPT_KEY_LENGTH = 24, ACCEPT_LENGTH = 28 };

/* Sec-WebSocket-Accept for a Sec-WebSocket-Key of ACCEPT_KEY_LENGTH characters; ends in NUL. */
void accept_for_key(struct str key, char out[static ACCEPT_LENGTH + 1]);
/* 16 bytes in base64. */
bool accept_key_valid(struct str key);
void accept_make_key(const unsigned char nonce[static 16], char out[static ACCEPT_KEY_LENGTH + 1]);

#endif
