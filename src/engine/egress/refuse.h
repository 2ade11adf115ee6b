/* SPDX-License-Identifier: Apache-2.0 */
/* Reports a denial to the program: an HTTP answer where HTTP can carry it, otherwise a reset.
 *
 * The body is JSON for people and agents: the denied action, the rule, and what to do next. It
 * contains no query strings; text from outside is truncated and escaped. */
#ifndef ENGINE_EGRESS_REFUSE_H
#define ENGINE_EGRESS_REFUSE_H

#include "engine/egress/authorize.h"

enum { REFUSE_MAX = 8 << 10 }; /* bytes; holds any answer */

/* Renders the whole answer, head and body; it closes the connection. Only `why` is required: i and
 * d may be NULL for a malformed request, method and path empty if the denial is about a connection
 * ("layer" is then "l4", else "l7"). A HEAD is answered without the body. Returns the length, or 0
 * if it does not fit, which cannot happen if cap is REFUSE_MAX. */
size_t refuse_render(int status, const struct egress_intent *i, const struct egress_decision *d,
                     const struct egress_reason *why, struct str method, struct str path, char *out,
                     size_t cap);

/* Sends the final answer, takes over the socket, and closes it after the client could read the
 * answer: further input is discarded, up to a limit and for a short time. */
void refuse_send(struct egress_box *b, int fd, struct str answer);

/* Renders and sends an answer. */
void refuse_http(struct egress_box *b, int fd, int status, const struct egress_intent *i,
                 const struct egress_decision *d, const struct egress_reason *why);

/* Closes with a reset: the program fails at once, and unsent bytes are dropped. */
void refuse_reset(int fd);

/* Sets a reason that no rule gave. code is a literal. */
void refuse_reason(struct egress_reason *ret, const char *code, const char *next, const char *fmt,
                   ...) __attribute__((format(printf, 4, 5)));

#endif
