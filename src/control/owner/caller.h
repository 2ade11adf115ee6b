/* SPDX-License-Identifier: Apache-2.0 */
/* The identity and rights of a caller: determined once per request at the edge, checked
 * everywhere. */
#ifndef CONTROL_OWNER_CALLER_H
#define CONTROL_OWNER_CALLER_H

#include "base/id.h"
#include "lib/json/bind.h"
#include "domain/model/actor.h"
#include "domain/model/role.h"
#include "domain/model/token.h"

struct caller {
    char owner[OWNER_MAX]; /* of its sandboxes: "uid:1000" */
    struct actor actor;
    uint64_t verbs;         /* VERB_BIT()s it may use */
    struct json_map labels; /* of its token: it sees only sandboxes that have all of them … */
    char also[ID_MAX];      /* … and this one of its owner; "": no other */
    bool admin;             /* sees the sandboxes of all owners */
    bool host_paths;        /* may name directories of this machine: a user on the unix socket */
    enum role role;         /* the decisions that it may make, and the trust of its sessions */
    bool by_token;          /* authenticated by a token, not by its socket */
    char family[ID_MAX];    /* of that token (struct token_record); "": none */
    int64_t expires_ns;     /* when the token expires, wall clock; 0: never */
    bool peer;              /* a client of tools: it may use only what it declares */
    unsigned egress;        /* enum egress_reach + 1: its token's ceiling; 0: none */
    bool trusted;           /* unix socket, or a token without lowered trust */
    bool gated;             /* its requests are subject to the tool policy … */
    bool network_asked;     /* … which was asked about a sandbox with a network */
};

/* Whether the caller may see a record of this owner with these labels. Decides for sandboxes,
 * snapshots, peers, held calls, tokens and events: an administrator sees the records of all owners,
 * and a caller with labels sees only records that have all of them. */
bool caller_sees(const struct caller *who, const char *owner, const struct json_map *labels);
/* Whether the labels have this one, with the same value. */
bool caller_label_fits(const struct json_map *labels, const struct json_pair *wanted);
/* The same without the owner: a master decides calls of every owner. */
bool caller_labels_fit(const struct caller *who, const struct json_map *labels);

static inline bool caller_may(const struct caller *c, enum token_verb v)
{
    return (c->verbs >> v) & 1;
}

#endif
