/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/sse.h"

#include "base/own.h"
#include "harness/tap.h"
#include "unit/lib/http/serving.h"

static struct err e;

static void on_request(struct http_exchange *x)
{
    const struct h1_field f = { STR("X-A"), STR("b") };

    CHECK_OK(sse_begin(x, &f, 1, &e), e);
    CHECK_OK(sse_send(x, &(struct sse_event){ .data = STR("plain") }, &e), e);
    CHECK_OK(sse_send(x,
                      &(struct sse_event){ .id = STR("7"),
                                           .event = STR("log"),
                                           .retry_ms = 1500,
                                           .data = STR("a\nb\r\nc\rd\n") },
                      &e),
             e);
    CHECK_OK(sse_heartbeat(x, &e), e);
    CHECK_OK(sse_send(x, &(struct sse_event){ 0 }, &e), e);
    CHECK_INT(sse_send(x, &(struct sse_event){ .id = STR("a\nb") }, &e), -ERR_INVALID);
    CHECK_INT(sse_send(x, &(struct sse_event){ .event = STR("a\r") }, &e), -ERR_INVALID);
    http_end(x);
}

TEST(events_are_lines)
{
    struct str got;

    serving_start(&(struct http_config){ .on_request = on_request });
    got = serving_ask(STR("GET / HTTP/1.0\r\n\r\n"));
    CHECK(has(got, "Content-Type: text/event-stream\r\n"));
    CHECK(has(got, "X-A: b\r\n"));
    CHECK(str_ends(got, STR("\r\n\r\ndata: plain\n\n"
                            "id: 7\nevent: log\nretry: 1500\n"
                            "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"
                            ":\n\n"
                            "data: \n\n")));
    serving_stop();
}
