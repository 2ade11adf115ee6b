/* Who asks, and what of: made once per request at the edge, asked everywhere. */
#ifndef CONTROL_CALLER_H
#define CONTROL_CALLER_H

#include "base/id.h"
#include "json/bind.h"
#include "model/actor.h"
#include "model/role.h"
#include "model/token.h"

struct caller {
    char owner[OWNER_MAX]; /* whose sandboxes: "uid:1000" */
    struct actor actor;
    uint64_t verbs;         /* VERB_BIT()s it may use */
    struct json_map labels; /* a token's: only sandboxes that have all of them */
    bool admin;             /* sees everybody's */
    bool host_paths;        /* may name directories of this machine: a user on the unix socket */
    enum role role;         /* what it may decide, and how far its sessions are trusted */
    bool by_token;          /* known by one, and not by a socket's other end */
    char family[ID_MAX];    /* of that token (struct token_record); "": it has none */
    int64_t expires_ns;     /* when that is good for nothing any more, by the wall; 0: never */
    bool peer;              /* a client that calls tools: it has what it declares to need */
    unsigned egress;        /* enum egress_reach + 1: its token's ceiling; 0: it has none */
    bool trusted;           /* unix socket, or a token that was not lowered */
    bool gated;             /* the policy for tools is asked about what it does … */
    bool network_asked;     /* … and was, about a sandbox with a network */
};

/* Whether a record of this owner and these labels exists for the caller. Sandboxes, snapshots,
 * peers, held calls, tokens and events are all decided here: an administrator sees every owner's
 * records, and whoever has labels sees only records that have all of them. */
bool caller_sees(const struct caller *who, const char *owner, const struct json_map *labels);
/* The same without the owner: a master decides calls of every owner. */
bool caller_labels_fit(const struct caller *who, const struct json_map *labels);

static inline bool caller_may(const struct caller *c, enum token_verb v)
{
    return (c->verbs >> v) & 1;
}

#endif
