/* SPDX-License-Identifier: Apache-2.0 */
/* The least policy for the destinations of a log: what it proposes, and what it leaves out. */
#ifndef ENGINE_EGRESS_LEARN_PROPOSAL_H
#define ENGINE_EGRESS_LEARN_PROPOSAL_H

#include "engine/egress/learn/base.h"

struct learn_choices {
    const char *base; /* the policy to begin with, as text; NULL: none */
    unsigned merge;   /* so many hosts below a domain become a wildcard; 0: never */
    bool programs;    /* name the programs that connected */
    bool suspicious;  /* also names that look like data */
    bool denied;      /* also destinations that the policy denied */
    bool keep;        /* keep endpoints of the base that the log does not need */
    bool audit;       /* answer with the policy of an audited run, not with a proposal */
};

/* A destination that gets an endpoint. */
struct learn_item {
    char host[HOST_MAX + 3]; /* a name, an address, or "*." and a domain */
    uint16_t port;
    struct learn_destination *of;
};

struct learn_proposal {
    struct learn_log *log;
    struct learn_base base;
    struct learn_item *items; /* sorted by host and port */
    size_t n_items;
    struct buf text;      /* the policy as YAML */
    struct buf base_text; /* the base in the same form; empty without a base */
};

/* Everything but the log; the proposal borrows from the arena. */
void learn_proposal_init(struct learn_proposal *p, struct learn_log *l);
void learn_proposal_done(struct learn_proposal *p);

/* Makes the policy. It is not proved yet (proof.h). */
int learn_propose(struct learn_proposal *p, const struct learn_choices *c, struct arena *a,
                  struct err *e);

#endif
