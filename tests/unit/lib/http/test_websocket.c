/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/websocket.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "harness/tap.h"
#include "lib/http/accept.h"
#include "unit/lib/http/serving.h"

#define UPGRADE                                                                                    \
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"                   \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

static struct err e;
static struct ws ws;
static struct ws_config config;
static int closed = -1, messages;

static void on_message(struct ws *w, enum frame_op op, struct str data)
{
    messages++;
    if (str_eq(data, STR("pause")))
        ws_pause(w);
    else if (str_eq(data, STR("close")))
        ws_close(w, FRAME_POLICY, STR("asked for"));
    else
        CHECK_OK(ws_send(w, op, data, &e), e);
}

static void on_closed(struct ws *w, int code)
{
    CHECK(closed == -1 && !w->x);
    closed = code;
}

static void on_request(struct http_exchange *x)
{
    config.on_message = on_message;
    config.on_closed = on_closed;
    if (ws_accept(&ws, x, &config, &e) < 0)
        http_fail(x, 400, str_from(e.msg));
}

static int open_socket(struct buf *in)
{
    int fd;

    serving_start(&(struct http_config){ .on_request = on_request });
    fd = serving_connect();
    serving_put(fd, STR(UPGRADE));
    serving_until(fd, in, STR("\r\n\r\n"));
    CHECK(has(buf_str(in), "HTTP/1.1 101 "));
    CHECK(has(buf_str(in), "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    buf_clear(in);
    return fd;
}

/* A masked frame; the mask is zero, so its payload can be read here. */
static void put_frame(int fd, enum frame_op op, struct str data)
{
    static const unsigned char mask[4];
    unsigned char head[FRAME_HEAD_MAX];

    serving_put(fd, (struct str){ (char *)head, frame_head(head, op, true, data.n, mask) });
    serving_put(fd, data);
}

TEST(the_handshake_is_checked)
{
    static const char *const bad[] = {
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: c2hvcnQ=\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket, h2c\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    };

    serving_start(&(struct http_config){ .on_request = on_request });
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (!has(serving_ask(str_from(bad[i])), "HTTP/1.1 400 "))
            FAIL("case %zu was accepted", i);
    serving_stop();
}

TEST(messages_pings_and_the_end)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = open_socket(&in);

    put_frame(fd, FRAME_TEXT, STR("hello"));
    serving_until(fd, &in, STR("\x81\x05hello"));
    put_frame(fd, FRAME_PING, STR("are you"));
    serving_until(fd, &in,
                  STR("\x8a\x07"
                      "are you"));
    put_frame(fd, FRAME_CLOSE, STR("\x0f\xa0")); /* 4000 */
    serving_until(fd, &in, (struct str){ 0 });
    CHECK(str_ends(buf_str(&in), STR("\x88\x02\x0f\xa0")));
    CHECK_INT(closed, 4000);
    serving_stop();
    CHECK_INT(closed, 4000);
}

TEST(a_violation_is_closed_with_its_code)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = open_socket(&in);

    serving_put(fd, STR("\x81\x05hello")); /* not masked */
    serving_until(fd, &in, (struct str){ 0 });
    CHECK_STR(buf_str(&in), "\x88\x02\x03\xea");
    CHECK_INT(closed, 0);
    serving_stop();
}

TEST(closing_waits_for_the_peer)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = open_socket(&in);

    put_frame(fd, FRAME_TEXT, STR("close"));
    serving_until(fd, &in, STR("asked for"));
    CHECK_INT(closed, -1);
    CHECK_INT(ws_send(&ws, FRAME_TEXT, STR("x"), &e), -ERR_CONFLICT);
    put_frame(fd, FRAME_CLOSE, STR("\x03\xe8"));
    serving_turn();
    CHECK_INT(closed, FRAME_NORMAL);
    serving_stop();
}

TEST(a_pause_holds_messages_back)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = open_socket(&in);

    serving_put(fd, STR("\x81\x85\0\0\0\0pause\x81\x81\0\0\0\0a\x81\x81\0\0\0\0b"));
    serving_turn();
    put_frame(fd, FRAME_TEXT, STR("c"));
    serving_turn();
    CHECK_INT(messages, 1);
    ws_resume(&ws);
    serving_until(fd, &in,
                  STR("\x81\x01"
                      "a\x81\x01"
                      "b\x81\x01"
                      "c"));
    CHECK_INT(messages, 4);
    serving_stop();
    CHECK_INT(closed, 0);
}

TEST(a_silent_peer_is_pinged_and_then_cut)
{
    AUTO(buf_done) struct buf in = BUF_INIT(1 << 16);
    AUTO_CLOSE int fd = -1;

    config.ping_ns = 10 * NS_PER_MS;
    fd = open_socket(&in);
    serving_until(fd, &in, (struct str){ 0 });
    CHECK(str_eq(buf_str(&in), STR("\x89\0")));
    CHECK_INT(closed, 0);
    serving_stop();
}
