/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon that knows its lines: it takes one connection after the other, notes what it is asked,
 * and answers what it was told to. And a way to run the command line against it. */
#ifndef TESTS_UNIT_CLI_FAKE_H
#define TESTS_UNIT_CLI_FAKE_H

#include "base/buf.h"

struct fake_reply {
    const char *bytes;            /* what to send once the request is there */
    size_t n;                     /* how many; 0: up to the NUL */
    int fds[3];                   /* to send along */
    size_t n_fds;                 /* how many of them */
    void (*then)(int connection); /* what to do before closing */
};

/* Answers of the usual kinds. */
#define FAKE_HEAD(status, type, length)                                                            \
    "HTTP/1.1 " status "\r\nContent-Type: " type "\r\nContent-Length: " length "\r\n\r\n"

/* Starts it on a unix socket of its own, which SANDBOXER_SOCKET then names. */
void fake_serve(const struct fake_reply *replies, size_t n);

/* An answer with this body; the text lives until the end. */
struct fake_reply fake_json(const char *status, const char *body);

/* The whole command line in a process of its own, with these words: its exit status. */
#define fake_run(...)             fake_run_words("", (const char *const[]){ __VA_ARGS__, NULL })
#define fake_run_with(input, ...) fake_run_words(input, (const char *const[]){ __VA_ARGS__, NULL })
int fake_run_words(const char *input, const char *const *words);

/* What it wrote to stdout and stderr. */
extern struct buf fake_out, fake_err;

/* All requests so far, as they came; ends the daemon. */
const char *fake_requests(void);

#endif
