/* SPDX-License-Identifier: Apache-2.0 */
/* Text that can be read, written again, is the same text: one text for one value. And any bytes,
 * written and read, are the same bytes. */
#include <stdint.h>
#include <stdlib.h>

#include "base/own.h"
#include "lib/crypto/encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct coding {
    int (*write)(struct str bytes, struct buf *out);
    int (*read)(struct str text, struct buf *out, struct err *e);
} codings[] = {
    { crypto_hex, crypto_unhex },
    { crypto_base64, crypto_unbase64 },
    { crypto_base64url, crypto_unbase64url },
};

static void must(bool true_)
{
    if (!true_)
        abort();
}

static void try(const struct coding *c, struct str in)
{
    AUTO(buf_done) struct buf there = BUF_INIT(SIZE_MAX / 2), back = BUF_INIT(SIZE_MAX / 2);
    struct err e;

    if (c->read(in, &there, &e) == 0) {
        must(c->write(buf_str(&there), &back) == 0);
        must(str_eq(buf_str(&back), in));
    } else {
        must(there.n == 0 && (!there.p || there.p[0] == '\0') && e.msg[0]);
    }
    buf_clear(&there);
    buf_clear(&back);
    must(c->write(in, &there) == 0 && c->read(buf_str(&there), &back, &e) == 0);
    must(str_eq(buf_str(&back), in));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < COUNT_OF(codings); i++)
        try(&codings[i], (struct str){ (const char *)data, size });
    return 0;
}
