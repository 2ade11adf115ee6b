/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/tls/hello.h"

#include <stdint.h>

enum {
    HANDSHAKE = 22,
    CLIENT_HELLO = 1,
    RECORD_MAX = 1 << 14,
    MESSAGE_HEAD = 4, /* type and length of a handshake message */
    RANDOM = 32,
    SESSION_ID_MAX = 32,
};

enum extension {
    SERVER_NAME = 0,
    ALPN = 16,
    ENCRYPTED_HELLO = 0xfe0d,
    ENCRYPTED_NAME = 0xffce, /* its predecessor */
};

static unsigned hello_byte(struct str s, size_t i)
{
    return (uint8_t)s.p[i];
}

static unsigned pair_at(struct str s, size_t i)
{
    return hello_byte(s, i) << 8 | hello_byte(s, i + 1);
}

/* --- Records --- */

bool tls_is_hello(struct str first)
{
    /* type, version (3.0 is SSL), length, type of the message */
    static const uint8_t least[] = { HANDSHAKE, 3, 1, 0, 0, CLIENT_HELLO };
    static const uint8_t most[] = { HANDSHAKE, 3, 4, UINT8_MAX, UINT8_MAX, CLIENT_HELLO };

    for (size_t i = 0; i < first.n && i <= TLS_RECORD_HEAD; i++)
        if (hello_byte(first, i) < least[i] || hello_byte(first, i) > most[i])
            return false;
    return first.n > 0;
}

/* The length of the record at `at`, 0 if its head is not there yet. */
static int record_length(struct str in, size_t at, struct err *e)
{
    struct str head = { in.p + at, in.n - at < TLS_RECORD_HEAD ? in.n - at : TLS_RECORD_HEAD };
    unsigned n;

    if (head.n > 0 && !tls_is_hello(head))
        return err_set(e, ERR_INVALID, "not a TLS handshake");
    if (head.n < TLS_RECORD_HEAD)
        return 0;
    n = pair_at(head, 3);
    if (n == 0 || n > RECORD_MAX)
        return err_set(e, ERR_INVALID, "a TLS record of %u bytes", n);
    return (int)n;
}

/* The message's bytes one by one, over the heads of records, which scan_records() has checked. */
struct hello_reader {
    struct str in;
    size_t at;     /* in `in` */
    size_t record; /* bytes left of the record */
    size_t left;   /* bytes that may be read: of the message, or of a vector in it */
};

/* The caller has checked `left`. */
static unsigned next_byte(struct hello_reader *r)
{
    if (r->record == 0) {
        r->record = pair_at(r->in, r->at + 3);
        r->at += TLS_RECORD_HEAD;
    }
    r->record--;
    r->left--;
    return hello_byte(r->in, r->at++);
}

/* ret NULL: skips them. */
static bool read_hello_bytes(struct hello_reader *r, char *ret, size_t n)
{
    if (r->left < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = (char)next_byte(r);

        if (ret)
            ret[i] = c;
    }
    return true;
}

static bool read_hello_number(struct hello_reader *r, size_t bytes, size_t *ret)
{
    size_t v = 0;

    if (r->left < bytes)
        return false;
    while (bytes-- > 0)
        v = v << 8 | next_byte(r);
    *ret = v;
    return true;
}

/* Reads a length of `bytes` bytes and confines the reader to that many; *outside is what may
 * be read behind them. */
static bool enter_vector(struct hello_reader *r, size_t bytes, size_t *outside)
{
    size_t n;

    if (!read_hello_number(r, bytes, &n) || n > r->left)
        return false;
    *outside = r->left - n;
    r->left = n;
    return true;
}

/* Passes over a vector; its length is between min and max. */
static bool skip_vector(struct hello_reader *r, size_t bytes, size_t min, size_t max, size_t *ret)
{
    size_t n;

    if (!read_hello_number(r, bytes, &n) || n < min || n > max || !read_hello_bytes(r, NULL, n))
        return false;
    *ret = n;
    return true;
}

/* --- Extensions --- */

/* A dot at the end; or an address, as names do not have a colon or a last label that begins with a
 * digit. */
static bool is_odd(const char *sni)
{
    const char *dot = strrchr(sni, '.'), *last = dot ? dot + 1 : sni;

    return *last == '\0' || strchr(sni, ':') || (*last >= '0' && *last <= '9');
}

/* Exactly one name: bytes outside `list` or `name` would be a second one. */
static bool read_sni(struct hello_reader *r, struct tls_hello *h)
{
    size_t list, type, name, n;

    if (h->has_sni || !enter_vector(r, 2, &list) || list > 0 || !read_hello_number(r, 1, &type) ||
        type != 0 || !enter_vector(r, 2, &name) || name > 0)
        return false;
    n = r->left;
    if (n == 0 || n >= sizeof h->sni || !read_hello_bytes(r, h->sni, n))
        return false;
    for (size_t i = 0; i < n; i++)
        if (h->sni[i] <= ' ' || h->sni[i] >= 0x7f)
            return false;
    h->has_sni = true;
    h->sni_odd = is_odd(h->sni);
    return true;
}

static bool read_alpn(struct hello_reader *r, struct tls_hello *h)
{
    size_t list, n;

    if (h->has_alpn || !enter_vector(r, 2, &list) || list > 0 || r->left == 0)
        return false;
    h->has_alpn = true;
    while (r->left > 0)
        if (!skip_vector(r, 1, 1, UINT8_MAX, &n))
            return false;
    return true;
}

static bool read_extension(struct hello_reader *r, struct tls_hello *h)
{
    size_t type, outside;
    bool good = true;

    if (!read_hello_number(r, 2, &type) || !enter_vector(r, 2, &outside))
        return false;
    switch (type) {
    case SERVER_NAME:
        good = read_sni(r, h);
        break;
    case ALPN:
        good = read_alpn(r, h);
        break;
    case ENCRYPTED_HELLO:
    case ENCRYPTED_NAME:
        h->ech = true;
        good = read_hello_bytes(r, NULL, r->left);
        break;
    default:
        good = read_hello_bytes(r, NULL, r->left);
    }
    if (!good || r->left > 0)
        return false;
    r->left = outside;
    return true;
}

/* --- The message --- */

static bool read_hello(struct hello_reader *r, struct tls_hello *h)
{
    size_t version, outside, n;

    if (!read_hello_bytes(r, NULL, MESSAGE_HEAD) || !read_hello_number(r, 2, &version) ||
        version < 0x0301 || version > 0x0304 || !read_hello_bytes(r, NULL, RANDOM) ||
        !skip_vector(r, 1, 0, SESSION_ID_MAX, &n))
        return false;
    if (!skip_vector(r, 2, 2, TLS_HELLO_MAX, &n) || n % 2 || !skip_vector(r, 1, 1, UINT8_MAX, &n))
        return false;
    if (r->left == 0)
        return true; /* before TLS 1.2 there need not be extensions */
    if (!enter_vector(r, 2, &outside) || outside > 0)
        return false;
    while (r->left > 0)
        if (!read_extension(r, h))
            return false;
    return true;
}

/* The handshake message's length once its head is in what was gathered, which may be over several
 * records; 0 before. */
static int message_length(struct str in, size_t gathered, struct err *e)
{
    struct hello_reader r = { .in = in, .left = gathered };
    size_t type, n;

    if (!read_hello_number(&r, 1, &type))
        return 0;
    if (type != CLIENT_HELLO)
        return err_set(e, ERR_INVALID, "not a TLS ClientHello");
    if (!read_hello_number(&r, 3, &n))
        return 0;
    if (n > TLS_HELLO_MAX - MESSAGE_HEAD)
        return err_set(e, ERR_TOO_BIG, "the TLS ClientHello is longer than %d bytes",
                       TLS_HELLO_MAX);
    return (int)n + MESSAGE_HEAD;
}

/* Finds the end of the hello, or 0, and checks the records up to it. */
static int scan_records(struct str in, int *ret_message, struct err *e)
{
    size_t at = 0, gathered = 0;

    for (int i = 0; i < TLS_HELLO_RECORDS; i++) {
        int n = record_length(in, at, e), message;
        size_t there;

        if (n <= 0)
            return n;
        at += TLS_RECORD_HEAD;
        there = in.n - at < (size_t)n ? in.n - at : (size_t)n;
        gathered += there;
        at += there;
        message = message_length(in, gathered, e);
        if (message < 0)
            return message;
        if (message > 0 && gathered - there + (size_t)n > (size_t)message)
            return err_set(e, ERR_INVALID, "something follows the TLS ClientHello in its record");
        if (there < (size_t)n)
            return 0;
        if (message > 0 && gathered == (size_t)message) {
            *ret_message = message;
            return (int)at;
        }
    }
    return err_set(e, ERR_TOO_BIG, "the TLS ClientHello is cut into more than %d records",
                   TLS_HELLO_RECORDS);
}

int tls_hello_parse(struct str in, struct tls_hello *ret, struct err *e)
{
    struct tls_hello h = { 0 };
    struct hello_reader r = { .in = in };
    int message = 0, n = scan_records(in, &message, e);

    if (n <= 0)
        return n;
    r.left = (size_t)message;
    if (!read_hello(&r, &h))
        return err_set(e, ERR_INVALID, "the TLS ClientHello is malformed");
    *ret = h;
    return n;
}
