/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket frames (RFC 6455), both sides. Depends on nothing but base.
 *
 * Reading gives whole messages: fragments are joined up to a limit, control frames may come in
 * between. Refused: reserved bits and opcodes, a wrong mask bit, lengths not in their shortest
 * form, fragmented or long control frames, text and close reasons that are not UTF-8, close codes
 * that may not be sent. */
#ifndef LIB_HTTP_FRAME_H
#define LIB_HTTP_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum frame_op {
    FRAME_CONTINUE = 0,
    FRAME_TEXT = 1,
    FRAME_BINARY = 2,
    FRAME_CLOSE = 8,
    FRAME_PING = 9,
    FRAME_PONG = 10,
};

enum frame_code {
    FRAME_NORMAL = 1000,
    FRAME_GOING_AWAY = 1001,
    FRAME_PROTOCOL_ERROR = 1002,
    FRAME_NO_CODE = 1005, /* never sent: a close frame without a code */
    FRAME_BAD_DATA = 1007,
    FRAME_POLICY = 1008,
    FRAME_TOO_BIG = 1009,
    FRAME_INTERNAL_ERROR = 1011,
    FRAME_RESTART = 1012,
};

enum { FRAME_HEAD_MAX = 14, FRAME_CONTROL_MAX = 125 };

struct frame_reader {
    bool from_client; /* frames must be masked, else must not */
    int code;         /* after an error: the code to close with */
    unsigned char head_[FRAME_HEAD_MAX];
    unsigned head_n_;
    uint64_t left_, at_; /* payload of the current frame: to come, and seen */
    int op_;             /* of the current frame; -1: its head is not complete */
    int message_op_;     /* of the message being joined; 0: none */
    bool told_;          /* the message in message_ was handed out */
    struct buf message_;
    char control_[FRAME_CONTROL_MAX];
};

struct frame_message {
    enum frame_op op; /* TEXT, BINARY, CLOSE, PING, PONG */
    struct str data;  /* of CLOSE: the reason; valid until the next call */
    int code;         /* of CLOSE */
};

void frame_reader_init(struct frame_reader *r, bool from_client, size_t max_message);
void frame_reader_done(struct frame_reader *r);

/* Takes bytes off the front of *in: 1 with a message, 0 when more is needed, or an error, after
 * which r->code says what to close with and nothing more can be read. */
int frame_read(struct frame_reader *r, struct str *in, struct frame_message *ret, struct err *e);

/* Writing. `mask` is NULL on the server's side, 4 random bytes on the client's. Returns the head's
 * length; the payload that follows must be masked with frame_mask(). */
size_t frame_head(unsigned char out[static FRAME_HEAD_MAX], enum frame_op op, bool last, uint64_t n,
                  const unsigned char *mask);
/* `at` is the position in the payload of p[0]. Masking twice unmasks. */
void frame_mask(char *p, size_t n, const unsigned char mask[static 4], uint64_t at);
/* The payload of a close frame; a reason that is too long is cut between characters. */
size_t frame_close(char out[static FRAME_CONTROL_MAX], int code, struct str reason);

#endif
