/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/crypto/encode.h"

#include <stdint.h>

static const char hex_digits[] = "0123456789abcdef";

static const struct base64 {
    const char *name;
    char digits[65]; /* the value of a character is its place */
    bool padded;
} standard = { "base64", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", true },
  for_urls = { "base64url", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
               false };

static void write_hex_digits(const unsigned char *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = hex_digits[bytes[i] >> 4];
        out[2 * i + 1] = hex_digits[bytes[i] & 15];
    }
}

void crypto_hex_sha256(const unsigned char digest[static CRYPTO_SHA256_SIZE],
                       char out[static CRYPTO_SHA256_HEX])
{
    write_hex_digits(digest, CRYPTO_SHA256_SIZE, out);
    out[CRYPTO_SHA256_HEX - 1] = '\0';
}

void crypto_sha256_end_hex(struct crypto_sha256 *h, char out[static CRYPTO_SHA256_HEX])
{
    unsigned char digest[CRYPTO_SHA256_SIZE];

    crypto_sha256_end(h, digest);
    crypto_hex_sha256(digest, out);
}

int crypto_hex(struct str bytes, struct buf *out)
{
    char *p;
    int r = bytes.n > SIZE_MAX / 2 ? -ERR_TOO_BIG : buf_room(out, bytes.n * 2, &p);

    if (r < 0)
        return r;
    write_hex_digits((const unsigned char *)bytes.p, bytes.n, p);
    buf_grew(out, bytes.n * 2);
    return 0;
}

/* The place of c among the digits, or -1. */
static int digit_position(const char *digits, char c)
{
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

int crypto_unhex(struct str text, struct buf *out, struct err *e)
{
    char *p;

    if (text.n % 2)
        return err_set(e, ERR_INVALID, "hexadecimal text has %zu digits, an odd number", text.n);
    if (buf_room(out, text.n / 2, &p) < 0)
        return err_set(e, ERR_TOO_BIG,
                       "hexadecimal text of %zu digits decodes to more than the allowed %zu bytes",
                       text.n, out->max);
    for (size_t i = 0; i < text.n / 2; i++) {
        int high = digit_position(hex_digits, text.p[2 * i]),
            low = digit_position(hex_digits, text.p[2 * i + 1]);

        if (high < 0 || low < 0) {
            buf_grew(out, 0);
            return err_set(e, ERR_INVALID, "byte %zu is not written in digits 0-9a-f", i);
        }
        p[i] = (char)(high << 4 | low);
    }
    buf_grew(out, text.n / 2);
    return 0;
}

/* Encodes the whole groups of three bytes: the fast path for long files. */
static size_t encode_whole(const struct base64 *kind, struct str bytes, char *out)
{
    const unsigned char *in = (const unsigned char *)bytes.p;
    size_t at = 0;

    for (; at + 3 <= bytes.n; at += 3, out += 4) {
        uint32_t bits = (uint32_t)in[at] << 16 | (uint32_t)in[at + 1] << 8 | in[at + 2];

        out[0] = kind->digits[bits >> 18];
        out[1] = kind->digits[bits >> 12 & 63];
        out[2] = kind->digits[bits >> 6 & 63];
        out[3] = kind->digits[bits & 63];
    }
    return at;
}

/* Groups of three bytes are four digits; a last group of one or two bytes is two or three. */
static int encode_base64(const struct base64 *kind, struct str bytes, struct buf *out)
{
    size_t rest = bytes.n % 3, tail = rest == 0 ? 0 : kind->padded ? 4 : rest + 1, at, n;
    char *p;
    int r = bytes.n > SIZE_MAX / 2 ? -ERR_TOO_BIG : buf_room(out, bytes.n / 3 * 4 + tail, &p);

    if (r < 0)
        return r;
    at = encode_whole(kind, bytes, p);
    for (n = at / 3 * 4; at < bytes.n; at += 3) {
        size_t in = bytes.n - at < 3 ? bytes.n - at : 3;
        uint32_t bits = 0;

        for (size_t i = 0; i < 3; i++)
            bits = bits << 8 | (i < in ? (unsigned char)bytes.p[at + i] : 0);
        for (size_t i = 0; i < 4; i++)
            if (i <= in)
                p[n++] = kind->digits[bits >> (18 - 6 * i) & 63];
            else if (kind->padded)
                p[n++] = '=';
    }
    buf_grew(out, n);
    return 0;
}

/* Takes the padding off. */
static int strip_padding(const struct base64 *kind, struct str *text, struct err *e)
{
    if (!kind->padded)
        return 0;
    if (text->n % 4)
        return err_set(e, ERR_INVALID, "base64 text has %zu characters, not a multiple of four",
                       text->n);
    for (int i = 0; i < 2 && text->n > 0 && text->p[text->n - 1] == '='; i++)
        text->n--;
    return 0;
}

/* One group of two to four digits to one to three bytes. */
static int decode_group(const struct base64 *kind, struct str digits, char *out, struct err *e)
{
    uint32_t bits = 0;

    for (size_t i = 0; i < 4; i++) {
        int value = i < digits.n ? digit_position(kind->digits, digits.p[i]) : 0;

        if (value < 0)
            return err_set(e, ERR_INVALID, "byte 0x%02x does not belong to %s text",
                           (unsigned char)digits.p[i], kind->name);
        bits = bits << 6 | (uint32_t)value;
    }
    for (size_t i = 0; i < 3; i++, bits <<= 8)
        if (i + 1 < digits.n)
            out[i] = (char)(bits >> 16 & 255);
        else if (bits >> 16 & 255)
            return err_set(e, ERR_INVALID,
                           "the last character of %s text has spare bits that are "
                           "not zero",
                           kind->name);
    return 0;
}

/* The groups that are whole and right, up to the first that is not: how many digits it took. */
static size_t decode_whole(const struct base64 *kind, struct str text, char *out)
{
    enum { NONE = 0x80 };
    unsigned char value[256];
    size_t at = 0;

    memset(value, NONE, sizeof value);
    for (unsigned char i = 0; i < 64; i++)
        value[(unsigned char)kind->digits[i]] = i;
    for (; at + 4 <= text.n; at += 4, out += 3) {
        const unsigned char *in = (const unsigned char *)text.p + at;
        unsigned char a = value[in[0]], b = value[in[1]], c = value[in[2]], d = value[in[3]];

        if ((a | b | c | d) & NONE)
            break;
        out[0] = (char)(a << 2 | b >> 4);
        out[1] = (char)(b << 4 | c >> 2);
        out[2] = (char)(c << 6 | d);
    }
    return at;
}

static int decode_base64(const struct base64 *kind, struct str text, struct buf *out, struct err *e)
{
    size_t n;
    char *p;
    int r = strip_padding(kind, &text, e);

    if (r < 0)
        return r;
    if (text.n % 4 == 1)
        return err_set(e, ERR_INVALID, "%s text of %zu characters ends within a byte", kind->name,
                       text.n);
    n = text.n / 4 * 3 + (text.n % 4 ? text.n % 4 - 1 : 0);
    if (buf_room(out, n, &p) < 0)
        return err_set(e, ERR_TOO_BIG,
                       "%s text of %zu characters decodes to more than the allowed %zu bytes",
                       kind->name, text.n, out->max);
    for (size_t at = decode_whole(kind, text, p); at < text.n; at += 4) {
        size_t in = text.n - at < 4 ? text.n - at : 4;

        r = decode_group(kind, (struct str){ text.p + at, in }, p + at / 4 * 3, e);
        if (r < 0) {
            buf_grew(out, 0);
            return r;
        }
    }
    buf_grew(out, n);
    return 0;
}

int crypto_base64(struct str bytes, struct buf *out)
{
    return encode_base64(&standard, bytes, out);
}

int crypto_base64url(struct str bytes, struct buf *out)
{
    return encode_base64(&for_urls, bytes, out);
}

int crypto_unbase64(struct str text, struct buf *out, struct err *e)
{
    return decode_base64(&standard, text, out, e);
}

int crypto_unbase64url(struct str text, struct buf *out, struct err *e)
{
    return decode_base64(&for_urls, text, out, e);
}
