/* SPDX-License-Identifier: Apache-2.0 */
/* Envelopes of Connect streams: one byte of flags, four bytes of length (big-endian), the
 * message. */
#ifndef EDGE_E2B_ENVELOPE_H
#define EDGE_E2B_ENVELOPE_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { ENVELOPE_HEAD = 5 };
enum envelope_flags { ENVELOPE_MESSAGE = 0, ENVELOPE_COMPRESSED = 1, ENVELOPE_END = 2 };

/* Returns the single message in the body of a streaming call. Fails if the body has anything
 * else. */
int envelope_read(struct str body, struct str *ret, struct err *e);

void envelope_head(enum envelope_flags flags, uint32_t n, char ret[static ENVELOPE_HEAD]);

#endif
