/* SPDX-License-Identifier: Apache-2.0 */
/* The server's side of a WebSocket, on an exchange of lib/http/server.h.
 *
 *     r = ws_accept(&w->ws, x, &(struct ws_config){ .on_message = …, .on_closed = … }, e);
 *
 * If the request is not a proper upgrade this fails, nothing is sent, and the handler answers (400,
 * or 426 where it wants one). Afterwards the exchange belongs to the WebSocket. Pings are answered
 * and closing is shaken hands on here. */
#ifndef LIB_HTTP_WEBSOCKET_H
#define LIB_HTTP_WEBSOCKET_H

#include "lib/http/frame.h"
#include "lib/http/server.h"
#include "lib/loop/timer.h"

struct ws;

struct ws_config {
    /* op is FRAME_TEXT or FRAME_BINARY; data is valid during the call. */
    void (*on_message)(struct ws *w, enum frame_op op, struct str data);
    /* Once, at the end: the peer's close code, FRAME_NO_CODE for none, or 0 if it vanished or broke
     * the protocol. The ws is not used afterwards; its memory may be freed here. */
    void (*on_closed)(struct ws *w, int code);
    void (*on_drain)(struct ws *w); /* may be NULL: the queue is short again */
    size_t max_message;             /* 0: 1 MiB */
    struct str protocol;            /* Sec-WebSocket-Protocol to answer; p == NULL: none */
    int64_t ping_ns; /* between pings; a peer silent for two is cut; 0: 30 s; <0: none */
};

struct ws {
    struct http_exchange *x; /* NULL before and after */
    void *user;
    struct ws_config config;
    struct frame_reader reader_;
    struct loop_timer timer_;
    struct loop_later later_;
    struct buf rest_; /* frames that came before a pause and are read after it */
    bool closing_, heard_, paused_;
    int code_;
};

/* Whether the request asks for a WebSocket at all. */
bool ws_wanted(const struct h1_request *q);
int ws_accept(struct ws *w, struct http_exchange *x, const struct ws_config *c, struct err *e);

/* As http_write(): 0, 1 (wait for on_drain), -ERR_BUSY; -ERR_CONFLICT after ws_close(). Text must
 * be UTF-8. */
int ws_send(struct ws *w, enum frame_op op, struct str data, struct err *e);
void ws_pause(struct ws *w); /* no messages until resumed */
void ws_resume(struct ws *w);

/* Sends a close frame; messages may still come until on_closed. */
void ws_close(struct ws *w, int code, struct str reason);

#endif
