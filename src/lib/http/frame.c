/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/frame.h"

enum { FIN = 0x80, RESERVED = 0x70, OPCODE = 0x0f, MASKED = 0x80, LENGTH = 0x7f };
enum { CONTROL = 8 /* opcodes from here on */, LENGTH_16 = 126, LENGTH_64 = 127 };

void frame_reader_init(struct frame_reader *r, bool from_client, size_t max_message)
{
    *r = (struct frame_reader){ .from_client = from_client, .op_ = -1 };
    buf_init(&r->message_, max_message);
}

void frame_reader_done(struct frame_reader *r)
{
    buf_done(&r->message_);
}

#define violate(r, value, code_, ...) ((r)->code = (value), err_set(e, (code_), __VA_ARGS__))

/* The length of the head, as far as it is known from its bytes so far. */
static unsigned head_length(const struct frame_reader *r)
{
    unsigned n = 2;

    if (r->head_n_ < 2)
        return n;
    if ((r->head_[1] & LENGTH) == LENGTH_16)
        n += 2;
    else if ((r->head_[1] & LENGTH) == LENGTH_64)
        n += 8;
    return r->head_[1] & MASKED ? n + 4 : n;
}

static bool is_last_frame(const struct frame_reader *r)
{
    return r->head_[0] & FIN;
}

/* The first two bytes are there. */
static int check_frame_start(struct frame_reader *r, struct err *e)
{
    unsigned op = r->head_[0] & OPCODE;

    if (r->head_[0] & RESERVED)
        return violate(r, FRAME_PROTOCOL_ERROR, ERR_INVALID,
                       "a WebSocket frame has reserved bits set");
    if (!(r->head_[1] & MASKED) == r->from_client)
        return violate(r, FRAME_PROTOCOL_ERROR, ERR_INVALID, "a WebSocket frame must%s be masked",
                       r->from_client ? "" : " not");
    if (op > FRAME_BINARY && op != FRAME_CLOSE && op != FRAME_PING && op != FRAME_PONG)
        return violate(r, FRAME_PROTOCOL_ERROR, ERR_INVALID, "unknown WebSocket opcode %u", op);
    if (op >= CONTROL && (!is_last_frame(r) || (r->head_[1] & LENGTH) > FRAME_CONTROL_MAX))
        return violate(r, FRAME_PROTOCOL_ERROR, ERR_INVALID,
                       "a WebSocket control frame is fragmented or longer than %d bytes",
                       FRAME_CONTROL_MAX);
    if (op < CONTROL && (op == FRAME_CONTINUE) != (r->message_op_ != 0))
        return violate(r, FRAME_PROTOCOL_ERROR, ERR_INVALID,
                       "a WebSocket continuation without a beginning, or the reverse");
    return 0;
}

static int begin_frame(struct frame_reader *r, struct err *e)
{
    unsigned first = r->head_[1] & LENGTH;
    unsigned bytes = first == LENGTH_16 ? 2 : first == LENGTH_64 ? 8 : 0;
    uint64_t n = bytes ? 0 : first;
    int op = r->head_[0] & OPCODE;

    for (unsigned i = 0; i < bytes; i++)
        n = n << 8 | r->head_[2 + i];
    if ((first == LENGTH_16 && n < LENGTH_16) || (first == LENGTH_64 && n <= UINT16_MAX))
        return violate(r, FRAME_PROTOCOL_ERROR, ERR_INVALID,
                       "a WebSocket frame's length is not in its shortest form");
    if (op < CONTROL && n > r->message_.max - r->message_.n)
        return violate(r, FRAME_TOO_BIG, ERR_TOO_BIG,
                       "a WebSocket message is longer than %zu bytes", r->message_.max);
    if (op == FRAME_TEXT || op == FRAME_BINARY)
        r->message_op_ = op;
    r->op_ = op;
    r->left_ = n;
    r->at_ = 0;
    return 0;
}

/* 1: the head is complete. */
static int read_frame_head(struct frame_reader *r, struct str *in, struct err *e)
{
    while (r->head_n_ < head_length(r)) {
        if (in->n == 0)
            return 0;
        r->head_[r->head_n_++] = (unsigned char)in->p[0];
        *in = (struct str){ in->p + 1, in->n - 1 };
        if (r->head_n_ == 2) {
            int bad = check_frame_start(r, e);

            if (bad < 0)
                return bad;
        }
    }
    int bad = begin_frame(r, e);

    return bad < 0 ? bad : 1;
}

static void copy_payload(struct frame_reader *r, struct str *in)
{
    size_t n = in->n < r->left_ ? in->n : (size_t)r->left_;
    char *to = r->control_ + (r->op_ >= CONTROL ? r->at_ : 0);

    if (n == 0)
        return;
    if (r->op_ < CONTROL && buf_room(&r->message_, n, &to) < 0)
        return; /* cannot be: the length was checked against the ceiling */
    memcpy(to, in->p, n);
    if (r->from_client)
        frame_mask(to, n, r->head_ + r->head_n_ - 4, r->at_);
    if (r->op_ < CONTROL)
        buf_grew(&r->message_, n);
    r->at_ += n;
    r->left_ -= n;
    *in = (struct str){ in->p + n, in->n - n };
}

static bool may_be_sent(int code)
{
    return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
           (code >= 3000 && code <= 4999);
}

static int end_close(struct frame_reader *r, struct frame_message *ret, struct err *e)
{
    const unsigned char *p = (const unsigned char *)r->control_;
    size_t n = (size_t)r->at_;

    *ret = (struct frame_message){ .op = FRAME_CLOSE, .code = FRAME_NO_CODE, .data = STR("") };
    if (n == 0)
        return 1;
    ret->code = n >= 2 ? p[0] << 8 | p[1] : 0;
    if (!may_be_sent(ret->code))
        return violate(r, FRAME_PROTOCOL_ERROR, ERR_INVALID,
                       "a WebSocket was closed with a code that does not exist");
    ret->data = (struct str){ r->control_ + 2, n - 2 };
    if (!str_is_utf8(ret->data))
        return violate(r, FRAME_BAD_DATA, ERR_INVALID, "a WebSocket's close reason is not UTF-8");
    return 1;
}

/* The frame is complete: 1 if that makes a message. */
static int end_frame(struct frame_reader *r, struct frame_message *ret, struct err *e)
{
    int op = r->op_;

    r->op_ = -1;
    r->head_n_ = 0;
    if (op == FRAME_CLOSE)
        return end_close(r, ret, e);
    if (op >= CONTROL) {
        *ret = (struct frame_message){ .op = (enum frame_op)op,
                                       .data = { r->control_, (size_t)r->at_ } };
        return 1;
    }
    if (!is_last_frame(r))
        return 0;
    *ret = (struct frame_message){ .op = (enum frame_op)r->message_op_,
                                   .data = buf_str(&r->message_) };
    r->message_op_ = 0;
    r->told_ = true;
    if (ret->op == FRAME_TEXT && !str_is_utf8(ret->data))
        return violate(r, FRAME_BAD_DATA, ERR_INVALID, "a WebSocket text is not UTF-8");
    return 1;
}

/* A message's memory is given back if it was a large one: most are small. */
static void forget_message(struct frame_reader *r)
{
    enum { KEEP = 4096 };

    if (!r->told_)
        return;
    if (r->message_.n > KEEP)
        buf_done(&r->message_);
    buf_clear(&r->message_);
    r->told_ = false;
}

int frame_read(struct frame_reader *r, struct str *in, struct frame_message *ret, struct err *e)
{
    int result;

    if (r->code)
        return err_set(e, ERR_CONFLICT, "the WebSocket failed before");
    forget_message(r);
    for (;;) {
        if (r->op_ < 0) {
            result = read_frame_head(r, in, e);
            if (result <= 0)
                return result;
        }
        copy_payload(r, in);
        if (r->left_ > 0)
            return 0;
        result = end_frame(r, ret, e);
        if (result != 0)
            return result;
    }
}

size_t frame_head(unsigned char out[static FRAME_HEAD_MAX], enum frame_op op, bool last, uint64_t n,
                  const unsigned char *mask)
{
    unsigned bytes = n < LENGTH_16 ? 0 : n <= UINT16_MAX ? 2 : 8;
    size_t at = 2;

    out[0] = (unsigned char)((last ? FIN : 0) | (unsigned)op);
    out[1] = (unsigned char)(bytes == 0 ? n : bytes == 2 ? LENGTH_16 : LENGTH_64);
    while (bytes > 0)
        out[at++] = (unsigned char)(n >> (8 * --bytes));
    if (mask) {
        out[1] |= MASKED;
        memcpy(out + at, mask, 4);
        at += 4;
    }
    return at;
}

void frame_mask(char *p, size_t n, const unsigned char mask[static 4], uint64_t at)
{
    unsigned char key[4];
    uint32_t wide;
    size_t i = 0;

    for (unsigned k = 0; k < 4; k++)
        key[k] = mask[(at + k) & 3];
    memcpy(&wide, key, sizeof(wide));
    for (; n - i >= sizeof(wide); i += sizeof(wide)) {
        uint32_t word;

        memcpy(&word, p + i, sizeof(word));
        word ^= wide;
        memcpy(p + i, &word, sizeof(word));
    }
    for (; i < n; i++)
        p[i] = (char)((unsigned char)p[i] ^ key[i & 3]);
}

size_t frame_close(char out[static FRAME_CONTROL_MAX], int code, struct str reason)
{
    size_t n = reason.n < FRAME_CONTROL_MAX - 2 ? reason.n : FRAME_CONTROL_MAX - 2;

    if (code == FRAME_NO_CODE)
        return 0;
    while (n > 0 && n < reason.n && ((unsigned char)reason.p[n] & 0xc0) == 0x80)
        n--;
    out[0] = (char)(code >> 8);
    out[1] = (char)(code & 0xff);
    if (n > 0)
        memcpy(out + 2, reason.p, n);
    return n + 2;
}
