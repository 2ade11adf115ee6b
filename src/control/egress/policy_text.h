/* An egress policy as it is stored and handed to workers: canonical JSON, checked and compiled
 * once, shared by whoever has to do with it. */
#ifndef CONTROL_POLICY_TEXT_H
#define CONTROL_POLICY_TEXT_H

#include "model/request.h"
#include "policy/egress_ceiling.h"
#include "profile/profile.h"

/* Who set a policy, as far as its ceiling depends on it. */
struct policy_author {
    bool admin;
    unsigned most; /* enum egress_reach + 1, of the token; 0: the token has no ceiling */
};

/* What a policy must stay within: see control/ceiling.h. */
struct policy_bounds {
    struct egress_ceiling ceiling;
    struct policy_author author;
};

struct gate_place;

struct policy_text {
    struct str json;    /* of its own memory, as … */
    struct str ceiling; /* … its ceiling for the worker: JSON */
    struct policy_author author;
    /* The same without the uses that it grants, for whoever comes after the first worker that has
     * it, in this life of the daemon or the next: who dies does not say how many are left. NULL: it
     * grants none. */
    struct policy_text *spent;
    uint32_t endpoints;
    unsigned refs;
    unsigned reach_;            /* reach.c: bits of it, once it was computed */
    struct gate_place *places_; /* places.c: once they were computed; of its own memory */
    size_t n_places_;
    bool has_places_;
};

struct policy_text *policy_text_ref(struct policy_text *t);
void policy_text_unref(struct policy_text *t);    /* NULL is fine */
void policy_text_unrefp_(struct policy_text **t); /* for AUTO() */

/* Whether a sandbox of this profile and request has a network at all. */
bool policy_wanted(const struct profile *p, const struct create_request *q);

/* What a new sandbox may reach: what its profile lets out, and what the request asks for beside. */
int policy_text_make(const struct profile *p, const struct create_request *q,
                     const struct policy_bounds *b, struct policy_text **ret, struct err *e);

/* A policy somebody wrote, YAML or JSON; or, as JSON without a version, what the `egress` of a
 * create request has: lists of destinations. */
int policy_text_read(struct str text, const struct policy_bounds *b, struct policy_text **ret,
                     struct err *e);

/* The addresses of this machine, as far as they can be read, on the arena. */
struct egress_own policy_own_addresses(struct arena *a);

/* What the store has: taken as it is. What exceeds the bounds is denied by the worker. */
int policy_text_stored(struct str json, uint32_t endpoints, const struct policy_bounds *b,
                       struct policy_text **ret, struct err *e);

#endif
