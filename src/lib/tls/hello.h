/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a TLS ClientHello without answering it, to find the client's destination.
 *
 * Reads the bytes as they arrived, in any segmentation and over several records, and copies nothing
 * but the name. Strict where two readings could differ: two SNI extensions, two names, a NUL or
 * control byte in a name, lengths that do not add up, anything behind the hello in its record. */
#ifndef LIB_TLS_HELLO_H
#define LIB_TLS_HELLO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

enum {
    TLS_RECORD_HEAD = 5,
    TLS_HELLO_MAX = 16 << 10, /* bytes of the handshake message with its head of 4 */
    TLS_HELLO_RECORDS = 64,   /* it may be cut into */
    TLS_HELLO_BYTES = TLS_HELLO_MAX + TLS_HELLO_RECORDS * TLS_RECORD_HEAD, /* to hold it all */
};

struct tls_hello {
    bool has_sni;
    char sni[256]; /* as sent, of printable ASCII; "" without one */
    bool sni_odd;  /* ends in a dot or is an address: RFC 6066 allows neither */
    bool ech;      /* an encrypted hello is (or is said to be) inside: sni may not be the place */
    bool has_alpn;
};

/* `in` begins with the connection's first byte and holds all that has arrived. Returns how many
 * bytes the hello takes, 0 if more are needed, -ERR_INVALID if this is not TLS or malformed, or
 * -ERR_TOO_BIG. Until the hello is complete a call costs no more than its records: it may be called
 * for every segment. Never 0 for TLS_HELLO_BYTES or more. */
int tls_hello_parse(struct str in, struct tls_hello *ret, struct err *e);

/* Whether the first bytes, one at least, can still become a ClientHello. */
bool tls_is_hello(struct str first);

#endif
