/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/envelope.h"

int envelope_read(struct str body, struct str *ret, struct err *e)
{
    const unsigned char *u = (const unsigned char *)body.p;
    uint32_t n;

    if (body.n < ENVELOPE_HEAD)
        return err_set(e, ERR_INVALID, "the body is shorter than the header of an envelope");
    if (body.p[0] != ENVELOPE_MESSAGE)
        return err_set(e, ERR_INVALID,
                       "unsupported envelope flags %u (only uncompressed messages are accepted)",
                       (unsigned)(unsigned char)body.p[0]);
    n = (uint32_t)u[1] << 24 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 8 | u[4];
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
