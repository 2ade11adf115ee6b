/* SPDX-License-Identifier: Apache-2.0 */
/* A request that is under way while its caller polls, and the last answer to one like it. */
#ifndef CLI_FEED_H
#define CLI_FEED_H

#include <poll.h>

#include "cli/api_call.h"

struct feed {
    struct api_call *busy;   /* sent, or a stream that is being read; NULL: none */
    struct api_call *last;   /* answered; NULL: none */
    struct api_call *before; /* … the time before, as rows of it may still be shown */
    bool streams;            /* the head of `busy` was read */
};

void feed_done(struct feed *f);

/* A new request, to be completed and passed to feed_send(). */
struct api_call *feed_call(const struct api_call *like, const char *method);
/* Sends the request, which it takes. */
int feed_send(struct feed *f, struct api_call *c, struct err *e);
/* Gives up the request under way. */
void feed_drop(struct feed *f);

void feed_poll(const struct feed *f, struct pollfd *ret);
/* Once that is readable: reads the answer, which becomes `last`; an error ends the request only. */
int feed_read(struct feed *f, struct err *e);
/* The same for a stream: 1 with the next piece, to be called again; 0: the next one has not come. */
int feed_read_stream(struct feed *f, struct str *ret, struct err *e);

#endif
