/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tls/hello.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/own.h"
#include "harness/tap.h"

static struct tls_hello h;
static struct err e;
static struct buf body, extensions, message, wire;

static void add_number(struct buf *b, size_t bytes, size_t v)
{
    while (bytes-- > 0)
        CHECK(buf_add_c(b, (char)(v >> 8 * bytes)) >= 0);
}

static void start(void)
{
    struct buf *all[] = { &body, &extensions, &message, &wire };

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        buf_done(all[i]);
        buf_init(all[i], 1 << 18);
    }
}

static void extend(size_t type, struct str data)
{
    add_number(&extensions, 2, type);
    add_number(&extensions, 2, data.n);
    CHECK(buf_add(&extensions, data) >= 0);
}

static void extend_sni(struct str name)
{
    AUTO(buf_done) struct buf b = BUF_INIT(1 << 16);

    add_number(&b, 2, name.n + 3);
    add_number(&b, 1, 0);
    add_number(&b, 2, name.n);
    buf_add(&b, name);
    extend(0, buf_str(&b));
}

/* The handshake message: everything up to the extensions is as usual. */
static void close_message(void)
{
    buf_add(&body, STR("\3\3"));
    for (int i = 0; i < 32; i++)
        buf_add_c(&body, (char)i);
    buf_add(&body, STR("\0\0\4\x0a\x0a\x13\1\1\0")); /* with a GREASE cipher */
    add_number(&body, 2, extensions.n);
    buf_add(&body, buf_str(&extensions));
    add_number(&message, 1, 1);
    add_number(&message, 3, body.n);
    buf_add(&message, buf_str(&body));
}

/* In records of so many bytes. */
static struct str cut(size_t size)
{
    buf_clear(&wire);
    for (size_t at = 0; at < message.n; at += size) {
        size_t n = message.n - at < size ? message.n - at : size;

        buf_add(&wire, STR("\x16\3\1"));
        add_number(&wire, 2, n);
        buf_add(&wire, (struct str){ message.p + at, n });
    }
    return buf_str(&wire);
}

static struct str with_sni(struct str name)
{
    start();
    extend_sni(name);
    close_message();
    return cut(1 << 14);
}

static int parse(struct str in)
{
    return tls_hello_parse(in, &h, &e);
}

TEST(a_name)
{
    struct str in = with_sni(STR("api.example.com"));

    CHECK_INT(parse(in), in.n);
    CHECK(h.has_sni && !h.sni_odd && !h.ech && !h.has_alpn);
    CHECK_STR(str_from(h.sni), "api.example.com");
}

TEST(what_follows_in_the_next_record_is_not_looked_at)
{
    struct str in = with_sni(STR("a"));
    size_t n = in.n;

    buf_add(&wire, STR("anything"));
    CHECK_INT(parse(buf_str(&wire)), n);
}

TEST(no_name)
{
    start();
    extend(0x1a1a, STR("")); /* GREASE */
    extend(43, STR("\4\3\4\3\3"));
    close_message();
    CHECK(parse(cut(1 << 14)) > 0);
    CHECK(!h.has_sni && !h.sni_odd);
    CHECK_STR(str_from(h.sni), "");
}

TEST(no_extensions_at_all)
{
    struct str old = STR("\x16\3\1\0\x2d\1\0\0\x29\3\1"
                         "0123456789abcdef0123456789abcdef\0\0\2\0\x2f\1\0");

    CHECK_INT(parse(old), old.n);
    CHECK(!h.has_sni);
}

TEST(names_that_are_odd_are_said_to_be)
{
    static const char *const odd[] = { "api.example.com.", "127.0.0.1",  "::1", "[::1]",
                                       "0x7f.1",           "2130706433", "." };

    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        CHECK(parse(with_sni(str_from(odd[i]))) > 0);
        CHECK(h.has_sni && h.sni_odd);
        CHECK_STR(str_from(h.sni), odd[i]);
    }
    CHECK(parse(with_sni(STR("1e100.net"))) > 0 && !h.sni_odd);
}

TEST(names_that_are_refused)
{
    static const struct str names[] = { STR(""),    STR("a\0b"),     STR("\0"),   STR("a\n"),
                                        STR("a b"), STR("\xc3\xa4"), STR("a\x7f") };
    char longest[256];

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (parse(with_sni(names[i])) != -ERR_INVALID)
            FAIL("name %zu is taken", i);
    memset(longest, 'a', sizeof longest);
    CHECK(parse(with_sni((struct str){ longest, 255 })) > 0);
    CHECK_INT(strlen(h.sni), 255);
    CHECK_INT(parse(with_sni((struct str){ longest, 256 })), -ERR_INVALID);
}

static int parse_sni_data(struct str data)
{
    start();
    extend(0, data);
    close_message();
    return parse(cut(1 << 14));
}

TEST(one_name_and_no_other)
{
    CHECK(parse_sni_data(STR("\0\4\0\0\1a")) > 0);
    CHECK_INT(parse_sni_data(STR("\0\x08\0\0\1a\0\0\1b")), -ERR_INVALID); /* two */
    CHECK_INT(parse_sni_data(STR("\0\4\1\0\1a")), -ERR_INVALID);          /* of another kind */
    CHECK_INT(parse_sni_data(STR("\0\5\0\0\1a")), -ERR_INVALID);          /* lengths */
    CHECK_INT(parse_sni_data(STR("\0\3\0\0\1a")), -ERR_INVALID);
    CHECK_INT(parse_sni_data(STR("\0\4\0\0\2a")), -ERR_INVALID);
    CHECK_INT(parse_sni_data(STR("\0\4\0\0\1ax")), -ERR_INVALID);
    CHECK_INT(parse_sni_data(STR("\0\0")), -ERR_INVALID);
    CHECK_INT(parse_sni_data(STR("")), -ERR_INVALID);
    start();
    extend_sni(STR("a"));
    extend_sni(STR("a"));
    close_message();
    CHECK_INT(parse(cut(1 << 14)), -ERR_INVALID);
}

static int parse_alpn(struct str data)
{
    start();
    extend(16, data);
    close_message();
    return parse(cut(1 << 14));
}

TEST(protocols)
{
    CHECK(parse_alpn(STR("\0\x0c\2h2\x08http/1.1")) > 0);
    CHECK(h.has_alpn);
    CHECK(parse_alpn(STR("\0\x09\x08http/1.0")) > 0);
    CHECK(h.has_alpn);
    CHECK(parse_alpn(STR("\0\4\3foo")) > 0);
    CHECK(h.has_alpn);
    CHECK_INT(parse_alpn(STR("\0\0")), -ERR_INVALID);
    CHECK_INT(parse_alpn(STR("\0\1\0")), -ERR_INVALID);
    CHECK_INT(parse_alpn(STR("\0\4\4foo")), -ERR_INVALID);
    CHECK_INT(parse_alpn(STR("\0\3\2h2x")), -ERR_INVALID);
}

TEST(an_encrypted_hello)
{
    start();
    extend_sni(STR("outer.example"));
    extend(0xfe0d, STR("\0\0\1\0\1\x42\0\0\0\0"));
    close_message();
    CHECK(parse(cut(1 << 14)) > 0);
    CHECK(h.ech && h.has_sni);
    start();
    extend(0xffce, STR("draft"));
    close_message();
    CHECK(parse(cut(1 << 14)) > 0 && h.ech);
}

/* However it is cut and however much of it is there, it means the same, and is whole at its end
 * only. */
TEST(any_segmentation)
{
    static const size_t sizes[] = { 2, 3, 5, 7, 64, 1 << 14 };

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct str in;

        start();
        extend_sni(STR("api.example.com"));
        extend(16, STR("\0\3\2h2"));
        close_message();
        in = cut(sizes[i]);
        for (size_t n = 0; n < in.n; n++)
            if (parse((struct str){ in.p, n }) != 0)
                FAIL("records of %zu: %zu bytes of %zu", sizes[i], n, in.n);
        CHECK_INT(parse(in), in.n);
        CHECK(h.has_alpn);
        CHECK_STR(str_from(h.sni), "api.example.com");
    }
}

TEST(too_many_records)
{
    struct str in;

    with_sni(STR("api.example.com"));
    in = cut(1);
    CHECK(message.n > TLS_HELLO_RECORDS);
    CHECK_INT(parse(in), -ERR_TOO_BIG);
    CHECK_INT(parse((struct str){ in.p, 6 * 63 }), 0);
}

static void pad_to(size_t n)
{
    AUTO(buf_done) struct buf zeros = BUF_INIT(1 << 17);
    char *p;

    start();
    extend_sni(STR("a"));
    close_message();
    CHECK(buf_room(&zeros, n, &p) >= 0);
    memset(p, 0, n);
    n -= message.n + 4;
    start();
    extend_sni(STR("a"));
    extend(21, (struct str){ p, n });
    close_message();
}

TEST(sizes)
{
    pad_to(TLS_HELLO_MAX);
    CHECK_INT(message.n, TLS_HELLO_MAX);
    CHECK(parse(cut(1 << 14)) > 0);
    CHECK_STR(str_from(h.sni), "a");
    CHECK(parse(cut(257)) > 0);
    CHECK(wire.n <= TLS_HELLO_BYTES);
    pad_to(TLS_HELLO_MAX + 1);
    CHECK_INT(parse(cut(1 << 14)), -ERR_TOO_BIG);
    CHECK_INT(parse((struct str){ wire.p, 9 }), -ERR_TOO_BIG); /* known from its head */
}

static const struct str strangers[] = {
    STR("GET / HTTP/1.1\r\n"),
    STR("PRI * HTTP/2.0\r\n"),
    STR("SSH-2.0-OpenSSH\r\n"),
    STR("\x80\x2e\1\0\2\0\x15\0\0\0\x10"), /* SSLv2 */
    STR("\x16"
        "arbage"),
    STR("\x16\2\1\0\5\1"),
    STR("\x16\3\0\0\5\1"), /* SSLv3 */
    STR("\x16\3\5\0\5\1"),
    STR("\x15\3\1\0\2\1\0"), /* an alert */
    STR("\x17\3\3\0\5"),
    STR("\x16\3\1\0\0"),   /* an empty record */
    STR("\x16\3\1\x40\1"), /* more than a record can hold */
    STR("\x16\3\1\0\4\2"), /* a server's hello */
    STR("\x16\3\1\0\4\1\0\0\0"),
    STR("\x16\3\1\0\5\1\0\0\0x"),            /* something behind it */
    STR("\x16\3\1\0\2\1\0\x17\3\1\0\2\0\1"), /* another kind of record in between */
    STR("\x16\3\1\0\2\1\0\x16\3\1\0\0"),
};

TEST(what_is_not_tls)
{
    for (size_t i = 0; i < COUNT_OF(strangers); i++)
        if (parse(strangers[i]) != -ERR_INVALID)
            FAIL("%zu is taken", i);
    CHECK_INT(parse(STR("")), 0);
}

TEST(a_look_at_the_first_bytes)
{
    struct str in = with_sni(STR("a"));

    for (size_t n = 1; n <= in.n; n++)
        CHECK(tls_is_hello((struct str){ in.p, n }));
    CHECK(!tls_is_hello(STR("")));
    for (size_t i = 0; i < 10; i++)
        CHECK(!tls_is_hello(strangers[i]));
}

/* Every length in the message, one too many and one too few. */
TEST(lengths_that_do_not_add_up)
{
    static const size_t at[] = { 4 + 34, 4 + 34 + 2, 4 + 34 + 7, 4 + 34 + 10, 4 + 34 + 14 };

    for (size_t i = 0; i < COUNT_OF(at); i++) {
        for (int by = -1; by <= 1; by += 2) {
            with_sni(STR("abc"));
            message.p[at[i]] = (char)(message.p[at[i]] + by);
            if (parse(cut(1 << 14)) != -ERR_INVALID)
                FAIL("length at %zu, changed by %d, is taken", at[i], by);
        }
    }
}

/* openssl s_client -servername api.example.com -alpn h2,http/1.1 */
static const char openssl[] =
    "160301014e0100014a03036c8d3bb1237612e5dc75700dc0f6872500e587377c3490353ee7c7153572cbcd20"
    "9a57d532dbf2efadf052ec9263ef3dfe62b13d7f5d629de0a36aa334981a9ede003e130213031301c02cc030"
    "009fcca9cca8ccaac02bc02f009ec024c028006bc023c0270067c00ac0140039c009c0130033009d009c003d"
    "003c0035002f00ff010000c300000014001200000f6170692e6578616d706c652e636f6d000b000403000102"
    "000a00160014001d0017001e0019001801000101010201030104002300000010000e000c0268320868747470"
    "2f312e310016000000170000000d002a0028040305030603080708080809080a080b08040805080604010501"
    "0601030303010302040205020602002b0009080304030303020301002d00020101003300260024001d0020f2"
    "f5322f9c3bf3a8ea39fa8e6d4c1800087f80f683adfccc34f668e63e7a9924";

TEST(the_hello_of_openssl)
{
    char in[sizeof openssl / 2];

    for (size_t i = 0; i < sizeof in; i++) {
        char byte[3] = { openssl[2 * i], openssl[2 * i + 1], '\0' };

        in[i] = (char)strtoul(byte, NULL, 16);
    }
    CHECK_INT(parse((struct str){ in, sizeof in }), sizeof in);
    CHECK_STR(str_from(h.sni), "api.example.com");
    CHECK(h.has_alpn && !h.sni_odd && !h.ech);
}
