/* How a denial looks to the program: one HTTP answer where HTTP can carry it, a reset elsewhere.
 *
 * The body is JSON for people and agents: what was denied, by which rule, and what to do next. It
 * holds nothing of a query, and text from outside is bounded and escaped. */
#ifndef EGRESS_REFUSE_H
#define EGRESS_REFUSE_H

#include "egress/authorize.h"

enum { REFUSE_MAX = 8 << 10 }; /* bytes that hold any answer */

/* The whole answer, head and body, which closes the connection. Everything but `why` may be
 * missing: i and d NULL for what was not understood; method and path empty for what is about a
 * connection
 * ("layer" is then "l4", else "l7"). A HEAD is answered without the body. Returns its length: 0, if
 * it does not fit, never if cap is REFUSE_MAX. */
size_t refuse_render(int status, const struct egress_intent *i, const struct egress_decision *d,
                     const struct egress_reason *why, struct str method, struct str path, char *out,
                     size_t cap);

/* Sends the last words, takes the socket over, and closes it when the client has had the chance to
 * read them: what it still sends is thrown away, up to a limit and for a short time. */
void refuse_send(struct egress_box *b, int fd, struct str answer);

/* Both: rendered and sent. */
void refuse_http(struct egress_box *b, int fd, int status, const struct egress_intent *i,
                 const struct egress_decision *d, const struct egress_reason *why);

/* Closes with a reset: the program fails at once, and what is not sent yet never is. */
void refuse_reset(int fd);

/* A reason of our own: no rule said it. code is a literal. */
void refuse_reason(struct egress_reason *ret, const char *code, const char *next, const char *fmt,
                   ...) __attribute__((format(printf, 4, 5)));

#endif
