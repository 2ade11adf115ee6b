/* SPDX-License-Identifier: Apache-2.0 */
/* A relay between a client and an origin, both of which are just sockets of the test: the client's
 * end of a socket pair, and a listener on loopback that the policy declares by its exact
 * address. */
#ifndef TESTS_EGRESS_WORLD_H
#define TESTS_EGRESS_WORLD_H

#include "base/buf.h"
#include "engine/egress/egress.h"

struct world {
    struct loop loop;
    struct egress_state egress;
    struct egress_box box;
    int audit; /* read end of the audit */
    int listener;
    uint16_t port; /* of the origin */
    int client;    /* the program's end; -1: none */
    int origin;    /* the newest accepted connection; -1: none */
    unsigned accepted;
    struct buf seen;   /* all that origins received since world_forget() */
    struct buf heard;  /* all that the client received since then */
    bool client_ended; /* the relay closed or reset it */
    bool origin_ended;
    uint64_t generation;
    const char *entry; /* additional members of the policy's entry, as a line of YAML; NULL: none */
};

/* `endpoint` is what the endpoint says besides host and port, in YAML flow style without braces. */
void world_start(struct world *w, const char *endpoint);
void world_stop(struct world *w);                         /* checks that nothing is left open */
void world_policy(struct world *w, const char *endpoint); /* NULL: one that allows nothing */

/* Begins a relay with what was already read. */
void world_tunnel(struct world *w, struct str read, struct str greeting);
void world_forward(struct world *w, struct str read);

/* Text in which "{}" is replaced by the origin's 93.184.216.34:port. Valid for three more calls. */
struct str world_text(struct world *w, const char *text);
struct str world_fill(struct world *w, struct str text); /* the same for what may hold a NUL */

void world_say(struct world *w, struct str bytes);    /* the client */
void world_answer(struct world *w, struct str bytes); /* the origin */
void world_end_origin(struct world *w);               /* closes its connection */
void world_end_client(struct world *w);               /* closes for writing */
void world_turn(struct world *w); /* runs until no event is left; reads both ends */
void world_forget(struct world *w);

bool world_has(const struct buf *b, const char *part);
size_t world_count(const struct buf *b, const char *part);
unsigned world_status(const struct world *w); /* of the first answer that the client heard */
struct str world_audit(struct world *w);      /* all lines so far */

#endif
