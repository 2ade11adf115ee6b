/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/envelope.h"

static uint32_t length_of(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;

    return (uint32_t)u[0] << 24 | (uint32_t)u[1] << 16 | (uint32_t)u[2] << 8 | u[3];
}

int envelope_read(struct str body, struct str *ret, struct err *e)
{
    uint32_t n;

    if (body.n < ENVELOPE_HEAD)
        return err_set(e, ERR_INVALID, "the body is shorter than the header of an envelope");
    if (body.p[0] != ENVELOPE_MESSAGE)
        return err_set(e, ERR_INVALID,
                       "unsupported envelope flags %u (only uncompressed messages are accepted)",
                       (unsigned)(unsigned char)body.p[0]);
    n = length_of(body.p + 1);
    if (n != body.n - ENVELOPE_HEAD)
        return err_set(e, ERR_INVALID, "the envelope announces %u bytes, but the body has %zu", n,
                       body.n - ENVELOPE_HEAD);
    *ret = (struct str){ body.p + ENVELOPE_HEAD, n };
    return 0;
}

void envelope_head(enum envelope_flags flags, uint32_t n, char ret[static ENVELOPE_HEAD])
{
    ret[0] = (char)flags;
    for (int i = 0; i < 4; i++)
        ret[1 + i] = (char)(n >> (24 - 8 * i));
}
