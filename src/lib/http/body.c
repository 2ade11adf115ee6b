/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/body.h"

#include "base/hex.h"
#include "base/own.h"

enum state {
    SIZE,            /* digits of a chunk's size */
    EXTENSION_NAME,  /* behind ';' */
    EXTENSION_VALUE, /* behind '=' */
    SIZE_LF,         /* behind the CR of the size's line */
    CHUNK,           /* data */
    CHUNK_CR,        /* behind the data */
    CHUNK_LF,
    TRAILER_START, /* at the beginning of a line */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    LAST_LF, /* behind the CR of the empty line */
};

void body_start(struct body *b, enum h1_framing framing, uint64_t length)
{
    *b = (struct body){ .framing = framing, .state_ = SIZE };
    if (framing == H1_LENGTH)
        b->left = length;
    b->ended = framing == H1_EMPTY || (framing == H1_LENGTH && length == 0);
}

static int fail_chunk(struct err *e, const char *what)
{
    return err_set(e, ERR_INVALID, "a malformed chunked body: %s", what);
}

static int size_byte(struct body *b, char c, struct err *e)
{
    int digit = hex_digit(c);

    if (digit >= 0) {
        if (++b->digits_ > BODY_SIZE_DIGITS || b->left > (uint64_t)INT64_MAX >> 4)
            return fail_chunk(e, "the size of a chunk is out of range");
        b->left = b->left << 4 | (uint64_t)digit;
        return 0;
    }
    if (b->digits_ == 0)
        return fail_chunk(e, "a chunk's size is not hexadecimal");
    if (c != ';' && c != '\r')
        return fail_chunk(e, "something follows a chunk's size");
    b->state_ = c == ';' ? EXTENSION_NAME : SIZE_LF;
    b->part_n_ = 0;
    return 0;
}

static int extension_byte(struct body *b, char c, struct err *e)
{
    if (++b->line_extra_ > BODY_EXTENSION_MAX || ++b->all_extra_ > BODY_EXTENSIONS_MAX)
        return fail_chunk(e, "its chunk extensions have more bytes than are allowed");
    if (h1_is_token((struct str){ &c, 1 })) {
        b->part_n_++;
        return 0;
    }
    if (b->part_n_ == 0 || (c != '\r' && (b->state_ == EXTENSION_VALUE || (c != ';' && c != '='))))
        return fail_chunk(e, "its chunk extensions are not NAME;NAME=VALUE");
    b->state_ = c == '\r' ? SIZE_LF : c == '=' ? EXTENSION_VALUE : EXTENSION_NAME;
    b->part_n_ = 0;
    return 0;
}

static int line_feed(struct body *b, char c, enum state next, struct err *e)
{
    if (c != '\n')
        return fail_chunk(e, "a line does not end in CR LF");
    b->state_ = (int)next;
    return 0;
}

/* Fields that would change how this or the next message is read. */
static int check_trailer_name(const struct body *b, struct err *e)
{
    static const char *const refused[] = { "content-length", "transfer-encoding", "host",
                                           "connection" };
    struct str name = { b->name_, b->name_n_ };

    if (name.n == 0)
        return fail_chunk(e, "a trailer without a name");
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        if (str_eq(name, str_from(refused[i])))
            return fail_chunk(e, "a trailer that belongs in the head");
    return 0;
}

static int trailer_name_byte(struct body *b, char c, struct err *e)
{
    if (c == ':') {
        b->state_ = TRAILER_VALUE;
        return check_trailer_name(b, e);
    }
    if (!h1_is_token((struct str){ &c, 1 }))
        return fail_chunk(e, "a trailer's name is no token");
    if (b->name_n_ < sizeof(b->name_)) /* the names that matter are shorter */
        b->name_[b->name_n_++] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    return 0;
}

static int trailer_byte(struct body *b, char c, struct err *e)
{
    if (++b->trailer_ > BODY_TRAILER_MAX)
        return fail_chunk(e, "its trailers have more bytes than are allowed");
    switch (b->state_) {
    case TRAILER_START:
        b->name_n_ = 0;
        b->state_ = c == '\r' ? LAST_LF : TRAILER_NAME;
        return c == '\r' ? 0 : trailer_name_byte(b, c, e);
    case TRAILER_NAME:
        return trailer_name_byte(b, c, e);
    case TRAILER_VALUE:
        if (c == '\r')
            b->state_ = TRAILER_LF;
        else if (c != '\t' && ((unsigned char)c < 0x20 || c == 0x7f))
            return fail_chunk(e, "a control character in a trailer");
        return 0;
    case TRAILER_LF:
        return line_feed(b, c, TRAILER_START, e);
    default: /* LAST_LF */
        b->ended = c == '\n';
        return b->ended ? 0 : fail_chunk(e, "a line does not end in CR LF");
    }
}

/* One byte that is not data. */
static int framing_byte(struct body *b, char c, struct err *e)
{
    switch (b->state_) {
    case SIZE:
        return size_byte(b, c, e);
    case EXTENSION_NAME:
    case EXTENSION_VALUE:
        return extension_byte(b, c, e);
    case SIZE_LF:
        return line_feed(b, c, b->left > 0 ? CHUNK : TRAILER_START, e);
    case CHUNK_CR:
        b->state_ = CHUNK_LF;
        return c == '\r' ? 0 : fail_chunk(e, "a chunk is longer than its size");
    case CHUNK_LF:
        b->digits_ = 0;
        b->line_extra_ = 0;
        b->left = 0;
        return line_feed(b, c, SIZE, e);
    default:
        return trailer_byte(b, c, e);
    }
}

static int take_body_data(struct body *b, struct str *in, size_t n, struct str *data)
{
    *data = (struct str){ in->p, n };
    *in = (struct str){ in->p + n, in->n - n };
    b->seen += n;
    return BODY_DATA;
}

/* As much as there is of `left`. */
static int take_counted(struct body *b, struct str *in, struct str *data)
{
    size_t n = in->n < b->left ? in->n : (size_t)b->left;

    b->left -= n;
    return take_body_data(b, in, n, data);
}

static int next_of_chunks(struct body *b, struct str *in, struct str *data, struct err *e)
{
    while (in->n > 0 && !b->ended) {
        int r;

        if (b->state_ == CHUNK) {
            r = take_counted(b, in, data);
            if (b->left == 0)
                b->state_ = CHUNK_CR;
            return r;
        }
        r = framing_byte(b, in->p[0], e);
        if (r < 0)
            return r;
        *in = (struct str){ in->p + 1, in->n - 1 };
    }
    return b->ended ? BODY_END : BODY_MORE;
}

int body_next(struct body *b, struct str *in, struct str *data, struct err *e)
{
    int r;

    if (b->ended)
        return BODY_END;
    if (b->framing == H1_CHUNKED)
        return next_of_chunks(b, in, data, e);
    if (in->n == 0)
        return BODY_MORE;
    if (b->framing == H1_UNTIL_CLOSE)
        return take_body_data(b, in, in->n, data);
    r = take_counted(b, in, data);
    b->ended = b->left == 0;
    return r;
}

int body_finish(const struct body *b, struct err *e)
{
    if (b->ended || b->framing == H1_UNTIL_CLOSE)
        return 0;
    return err_set(e, ERR_UPSTREAM, "the body was cut off after %llu bytes",
                   (unsigned long long)b->seen);
}

struct str body_chunk_line(char out[static BODY_CHUNK_LINE_MAX], size_t n)
{
    char digits[16];
    size_t count = 0, at = 0;

    do {
        digits[count++] = "0123456789abcdef"[n & 15];
        n >>= 4;
    } while (n > 0);
    while (count > 0)
        out[at++] = digits[--count];
    out[at++] = '\r';
    out[at++] = '\n';
    return (struct str){ out, at };
}
