/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events on a streaming answer. */
#ifndef LIB_HTTP_SSE_H
#define LIB_HTTP_SSE_H

#include "lib/http/server.h"

struct sse_event {
    struct str id, event; /* empty: not sent; one line each */
    struct str data;      /* any number of lines */
    int64_t retry_ms;     /* 0: not sent */
};

/* 200, text/event-stream, not to be cached or buffered. */
int sse_begin(struct http_exchange *x, const struct h1_field *fields, size_t n, struct err *e);

/* As http_write(): 0, 1 (wait for on_drain), -ERR_BUSY. -ERR_INVALID if id or event hold a line
 * break or a NUL: nothing was sent. */
int sse_send(struct http_exchange *x, const struct sse_event *v, struct err *e);

/* A comment, so that the way through proxies stays open and a dead client is found. */
int sse_heartbeat(struct http_exchange *x, struct err *e);

#endif
