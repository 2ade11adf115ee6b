/* Envelopes of Connect streams: a byte of flags, a length of four bytes, and that many bytes. */
#ifndef API_E2B_ENVELOPE_H
#define API_E2B_ENVELOPE_H

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { ENVELOPE_HEAD = 5 };
enum envelope_flags { ENVELOPE_MESSAGE = 0, ENVELOPE_COMPRESSED = 1, ENVELOPE_END = 2 };

/* The one message that the body of a streaming call is: nothing before it, nothing behind it. */
int envelope_read(struct str body, struct str *ret, struct err *e);

void envelope_head(enum envelope_flags flags, uint32_t n, char ret[static ENVELOPE_HEAD]);

#endif
