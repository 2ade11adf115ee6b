/* SPDX-License-Identifier: Apache-2.0 */
/* A hello means the same however it arrives and however it is cut into records. */
#include <stdlib.h>

#include "base/buf.h"
#include "base/own.h"
#include "lib/tls/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
    if (!good)
        abort();
}

static void check_same(const struct tls_hello *a, const struct tls_hello *b)
{
    must(a->has_sni == b->has_sni && a->sni_odd == b->sni_odd && a->ech == b->ech);
    must(a->has_alpn == b->has_alpn);
    must(strcmp(a->sni, b->sni) == 0);
}

/* 0 until the end is known, which then stays. */
static void check_pieces(struct str in, int whole)
{
    struct tls_hello h;
    int r = 0;

    for (size_t n = 0; n <= in.n && r == 0; n++) {
        r = tls_hello_parse((struct str){ in.p, n }, &h, NULL);
        must(r <= 0 || (size_t)r == n);
    }
    must((r > 0) == (whole > 0) && (r == 0) == (whole == 0));
}

/* The message without its records. */
static void join(struct str in, struct buf *out)
{
    for (size_t at = 0; at < in.n;) {
        size_t n = (size_t)(uint8_t)in.p[at + 3] << 8 | (uint8_t)in.p[at + 4];

        must(buf_add(out, (struct str){ in.p + at + TLS_RECORD_HEAD, n }) >= 0);
        at += TLS_RECORD_HEAD + n;
    }
}

static void check_cut_anew(struct str in, const struct tls_hello *whole)
{
    AUTO(buf_done) struct buf message = BUF_INIT(TLS_HELLO_MAX);
    AUTO(buf_done) struct buf anew = BUF_INIT(TLS_HELLO_BYTES);
    struct tls_hello h;

    join(in, &message);
    for (size_t at = 0, piece = message.n / TLS_HELLO_RECORDS + 1; at < message.n; at += piece) {
        size_t n = message.n - at < piece ? message.n - at : piece;

        must(buf_addf(&anew, "\x16\3\1") >= 0 && buf_add_c(&anew, (char)(n >> 8)) >= 0 &&
             buf_add_c(&anew, (char)n) >= 0 &&
             buf_add(&anew, (struct str){ message.p + at, n }) >= 0);
    }
    must(tls_hello_parse(buf_str(&anew), &h, NULL) == (int)anew.n);
    check_same(whole, &h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = { (const char *)data, size };
    struct tls_hello h;
    int r = tls_hello_parse(in, &h, NULL);

    must(size < TLS_HELLO_BYTES || r != 0);
    must(r < 0 || size == 0 || tls_is_hello(in));
    check_pieces(in, r);
    if (r > 0)
        check_cut_anew((struct str){ in.p, (size_t)r }, &h);
    return 0;
}
