/* SPDX-License-Identifier: Apache-2.0 */
/* A server in the test's own process and a client that is just a socket. */
#ifndef TESTS_SERVING_H
#define TESTS_SERVING_H

#include "base/buf.h"
#include "lib/http/server.h"

extern struct loop serving_loop;
extern struct http_server *serving;

void serving_start(const struct http_config *c);
void serving_stop(void); /* and checks that nothing is left */

int serving_connect(void);                  /* a connected, non-blocking unix socket */
void serving_put(int fd, struct str bytes); /* all of it, while the server runs */
void serving_turn(void);                    /* lets the server do what there is to do */

/* Runs the server until `end` has arrived behind what `in` holds, or the end of the stream for an
 * empty one. Fails the test after ten seconds. */
void serving_until(int fd, struct buf *in, struct str end);

/* A new connection: sends, reads to the end of the stream, and returns what came. */
struct str serving_ask(struct str request);

bool has(struct str text, const char *part);

#endif
