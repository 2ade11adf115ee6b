/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/daytona/session_scan.h"

#include <stdio.h>

enum { RS = '\036' };

void session_scan_init(struct session_scan *s)
{
    *s = (struct session_scan){ 0 };
    buf_init(&s->held, SESSION_MARK_MAX);
}

void session_scan_done(struct session_scan *s)
{
    buf_done(&s->held);
}

static void emit_session_data(const struct session_scan *s, struct str data, session_event_fn *fn,
                              void *user)
{
    if (data.n)
        fn(user, &(struct session_event){ .kind = SESSION_DATA, .id = s->id, .text = data });
}

static bool is_id_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* Length of RS and the id before '>' or '<'; 0 if `in` does not start with them, in.n if more bytes
 * are needed. */
static size_t id_length(struct str in)
{
    size_t n = 1;

    while (n < in.n && n < ID_MAX && is_id_char(in.p[n]))
        n++;
    if (n == in.n)
        return n < ID_MAX ? in.n : 0;
    return n > 1 && n < ID_MAX && (in.p[n] == '>' || in.p[n] == '<') ? n : 0;
}

static bool read_mark(struct session_scan *s, struct str mark, session_event_fn *fn, void *user)
{
    size_t n = id_length(mark);
    struct str id = { mark.p + 1, n ? n - 1 : 0 };
    struct session_event v = { .kind = SESSION_END };
    int64_t status = 0;

    if (!n || n == mark.n || !id_valid("cmd_", id))
        return false;
    if (mark.p[n] == '>')
        v.kind = SESSION_BEGIN;
    v.text = (struct str){ mark.p + n + 1, mark.n - n - 1 };
    if (v.kind == SESSION_END && (!str_to_i64(v.text, &status) || status < 0 || status > 255))
        return false;
    (void)str_copy(id, s->id, sizeof s->id);
    v.id = s->id;
    v.status = (int)status;
    fn(user, &v);
    if (v.kind == SESSION_END)
        s->id[0] = '\0';
    return true;
}

/* The held bytes are not a mark: emits them as output. */
static void flush_held_output(struct session_scan *s, session_event_fn *fn, void *user)
{
    emit_session_data(s, buf_str(&s->held), fn, user);
    buf_clear(&s->held);
}

/* Adds the next byte of a possible mark. */
static void hold_mark_byte(struct session_scan *s, char c, session_event_fn *fn, void *user)
{
    if (c == RS || buf_add_c(&s->held, c) < 0) { /* a mark contains no RS and is bounded */
        flush_held_output(s, fn, user);
        buf_add_c(&s->held, c);
    }
    if (c == '\n') {
        if (read_mark(s, (struct str){ s->held.p, s->held.n - 1 }, fn, user))
            buf_clear(&s->held);
        else
            flush_held_output(s, fn, user);
    } else if (s->held.p[0] != RS || (s->held.n <= ID_MAX + 1 && !id_length(buf_str(&s->held)))) {
        flush_held_output(s, fn, user);
    }
}

void session_scan(struct session_scan *s, struct str data, session_event_fn *fn, void *user)
{
    while (data.n) {
        size_t n = s->held.n ? 0 : str_find(data, RS);

        if (n) {
            emit_session_data(s, (struct str){ data.p, n }, fn, user);
        } else {
            hold_mark_byte(s, data.p[0], fn, user);
            n = 1;
        }
        data = (struct str){ data.p + n, data.n - n };
    }
}

static bool is_plain_command_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_./-", c));
}

int session_encode(struct str text, struct buf *out)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < text.n; i++)
        r = is_plain_command_char(text.p[i])
                ? buf_add_c(out, text.p[i])
                : buf_addf(out, "\\0%03o", (unsigned)(unsigned char)text.p[i]);
    return r;
}

static int read_octal_escape(struct str in)
{
    int n = 0;

    for (size_t i = 2; i < 5; i++) {
        if (in.p[i] < '0' || in.p[i] > '7')
            return -1;
        n = n * 8 + in.p[i] - '0';
    }
    return n < 256 ? n : -1;
}

int session_decode(struct str text, struct buf *out)
{
    int r = 0;

    while (r >= 0 && text.n) {
        bool coded =
            text.n >= 5 && text.p[0] == '\\' && text.p[1] == '0' && read_octal_escape(text) >= 0;
        size_t n = coded ? 5 : 1;

        r = buf_add_c(out, coded ? (char)read_octal_escape(text) : text.p[0]);
        text = (struct str){ text.p + n, text.n - n };
    }
    return r;
}
