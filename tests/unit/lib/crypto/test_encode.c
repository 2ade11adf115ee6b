/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/encode.h"

#include "base/own.h"
#include "harness/tap.h"

typedef int writer_fn(struct str bytes, struct buf *out);
typedef int reader_fn(struct str text, struct buf *out, struct err *e);

static void check_both_ways(writer_fn *write, reader_fn *read, struct str bytes, const char *text)
{
    AUTO(buf_done) struct buf written = BUF_INIT(1024), back = BUF_INIT(1024);
    struct err e;

    CHECK_INT(write(bytes, &written), 0);
    CHECK_STR(buf_str(&written), text);
    CHECK_OK(read(str_from(text), &back, &e), e);
    CHECK(str_eq(buf_str(&back), bytes));
}

static void check_refused(reader_fn *read, struct str text, const char *why)
{
    AUTO(buf_done) struct buf b = BUF_INIT(1024);
    struct err e = { .code = ERR_OK };

    CHECK_INT(buf_add(&b, STR("before")), 0);
    CHECK_INT(read(text, &b, &e), -ERR_INVALID);
    if (!strstr(e.msg, why))
        FAIL("'%s' does not say '%s'", e.msg, why);
    CHECK_STR(buf_str(&b), "before");
    CHECK_INT(b.p[b.n], 0);
}

TEST(hexadecimal_both_ways)
{
    check_both_ways(crypto_hex, crypto_unhex, STR(""), "");
    check_both_ways(crypto_hex, crypto_unhex, STR("\x00\x7f\x80\xff"), "007f80ff");
}

TEST(a_digest_as_text)
{
    unsigned char digest[CRYPTO_SHA256_SIZE];
    char hex[CRYPTO_SHA256_HEX];

    crypto_sha256(STR("abc"), digest);
    crypto_hex_sha256(digest, hex);
    CHECK_STR(str_from(hex), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(hexadecimal_is_lower_case_and_whole)
{
    check_refused(crypto_unhex, STR("0"), "odd");
    check_refused(crypto_unhex, STR("00F0"), "byte 1");
    check_refused(crypto_unhex, STR("0 "), "byte 0");
    check_refused(crypto_unhex, STR("0\0"), "byte 0");
    check_refused(crypto_unhex, STR("0x"), "byte 0");
}

/* The vectors of RFC 4648, section 10. */
TEST(base64_as_the_standard_says)
{
    static const struct {
        struct str bytes;
        const char *padded, *plain;
    } vectors[] = {
        { { "", 0 }, "", "" },
        { { "f", 1 }, "Zg==", "Zg" },
        { { "fo", 2 }, "Zm8=", "Zm8" },
        { { "foo", 3 }, "Zm9v", "Zm9v" },
        { { "foob", 4 }, "Zm9vYg==", "Zm9vYg" },
        { { "fooba", 5 }, "Zm9vYmE=", "Zm9vYmE" },
        { { "foobar", 6 }, "Zm9vYmFy", "Zm9vYmFy" },
        { { "\xfb\xff\xbf\x00", 4 }, "+/+/AA==", "-_-_AA" },
    };

    for (size_t i = 0; i < COUNT_OF(vectors); i++) {
        struct str bytes = vectors[i].bytes;

        check_both_ways(crypto_base64, crypto_unbase64, bytes, vectors[i].padded);
        check_both_ways(crypto_base64url, crypto_unbase64url, bytes, vectors[i].plain);
    }
}

TEST(base64_of_every_byte_at_every_place)
{
    static const struct {
        writer_fn *write;
        reader_fn *read;
    } codings[] = { { crypto_base64, crypto_unbase64 }, { crypto_base64url, crypto_unbase64url } };
    char bytes[1024];
    struct err e;

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 167 + i / 256);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        struct buf text AUTO(buf_done) = BUF_INIT(4096), back AUTO(buf_done) = BUF_INIT(4096);
        size_t k = n % COUNT_OF(codings);

        CHECK_INT(codings[k].write((struct str){ bytes, n }, &text), 0);
        CHECK_OK(codings[k].read(buf_str(&text), &back, &e), e);
        CHECK(str_eq(buf_str(&back), (struct str){ bytes, n }));
    }
}

TEST(base64_has_one_text_for_one_value)
{
    check_refused(crypto_unbase64, STR("Zm9vZm9vZm9vZm*v"), "0x2a does not belong");
    check_refused(crypto_unbase64, STR("Zg"), "multiple of four");
    check_refused(crypto_unbase64, STR("Zg="), "multiple of four");
    check_refused(crypto_unbase64, STR("Zh=="), "spare bits");
    check_refused(crypto_unbase64, STR("Zm9="), "spare bits");
    check_refused(crypto_unbase64, STR("Z==="), "does not belong");
    check_refused(crypto_unbase64, STR("===="), "does not belong");
    check_refused(crypto_unbase64, STR("Zg==Zg=="), "does not belong");
    check_refused(crypto_unbase64, STR("Zm9v\nYg="), "does not belong");
    check_refused(crypto_unbase64, STR("-_-_"), "does not belong");
    check_refused(crypto_unbase64, STR("Zm9\0"), "does not belong");
    check_refused(crypto_unbase64, STR("Zm9\xff"), "0xff");
    check_refused(crypto_unbase64url, STR("Z"), "within a byte");
    check_refused(crypto_unbase64url, STR("Zg=="), "does not belong");
    check_refused(crypto_unbase64url, STR("Zh"), "spare bits");
    check_refused(crypto_unbase64url, STR("+/+/"), "does not belong");
}

TEST(nothing_passes_the_ceiling_and_nothing_is_refused_below_it)
{
    static const struct {
        writer_fn *write;
        reader_fn *read;
        size_t size; /* of one byte's text */
    } codings[] = { { crypto_hex, crypto_unhex, 2 },
                    { crypto_base64, crypto_unbase64, 4 },
                    { crypto_base64url, crypto_unbase64url, 2 } };
    struct err e;

    for (size_t i = 0; i < COUNT_OF(codings); i++) {
        AUTO(buf_done) struct buf exact = BUF_INIT(codings[i].size);
        AUTO(buf_done) struct buf small = BUF_INIT(codings[i].size - 1);
        AUTO(buf_done) struct buf none = BUF_INIT(0);

        CHECK_INT(codings[i].write(STR("f"), &exact), 0);
        CHECK_INT(exact.n, codings[i].size);
        CHECK_INT(codings[i].write(STR("f"), &small), -ERR_TOO_BIG);
        CHECK_INT(small.n, 0);
        CHECK_INT(codings[i].read(buf_str(&exact), &none, &e), -ERR_TOO_BIG);
    }
}
