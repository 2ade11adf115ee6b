/* SPDX-License-Identifier: Apache-2.0 */
/* An egress policy as it is stored and sent to workers: canonical JSON, checked and compiled once,
 * reference-counted. */
#ifndef CONTROL_EGRESS_POLICY_TEXT_H
#define CONTROL_EGRESS_POLICY_TEXT_H

#include "domain/model/request.h"
#include "domain/policy/egress_ceiling.h"
#include "domain/profile/profile.h"

/* The author of a policy, as far as its ceiling depends on it. */
struct policy_author {
    bool admin;
    unsigned most; /* enum egress_reach + 1, of the token; 0: the token has no ceiling */
};

/* The limits of a policy: see control/egress/ceiling.h. */
struct policy_bounds {
    struct egress_ceiling ceiling;
    struct policy_author author;
    struct json_strs names; /* egress.names of the configuration, which complete a policy */
    bool past;              /* entries whose `until` has passed are accepted, to be explained */
};

struct gate_place;

struct policy_text {
    struct str json;    /* in its own memory, like … */
    struct str ceiling; /* … its ceiling for the worker: JSON */
    struct policy_author author;
    /* The policy with its limited uses spent, for every worker after the first one that got it,
     * also after a restart of the daemon: a dead worker does not report how many uses are left.
     * NULL: it grants no limited uses. */
    struct policy_text *spent;
    /* Why this version cannot enforce the stored policy, in its own memory; NULL: it can. */
    const char *problem;
    uint32_t endpoints;
    unsigned refs;
    unsigned reach_;            /* reach.c: cached bits */
    struct gate_place *places_; /* places.c: cached, in its own memory */
    size_t n_places_;
    bool has_places_;
};

struct policy_text *policy_text_ref(struct policy_text *t);
void policy_text_unref(struct policy_text *t);    /* NULL is fine */
void policy_text_unrefp_(struct policy_text **t); /* for AUTO() */

/* Whether a sandbox of this profile and request has a network at all. */
bool policy_wanted(const struct profile *p, const struct create_request *q);

/* The policy of a new sandbox: its profile's, and what the request adds. */
int policy_text_make(const struct profile *p, const struct create_request *q,
                     const struct policy_bounds *b, struct policy_text **ret, struct err *e);

/* A policy from a user, YAML or JSON; or, as JSON without a version, the `egress` member of a
 * create request: lists of destinations. */
int policy_text_read(struct str text, const struct policy_bounds *b, struct policy_text **ret,
                     struct err *e);

/* The addresses of this machine, as far as they can be read, on the arena. */
struct egress_own policy_own_addresses(struct arena *a);

/* A placeholder for a policy that cannot be loaded: everything is denied until another policy is
 * set. */
int policy_text_missing(const char *problem, struct policy_text **ret, struct err *e);

/* A policy from the store, unchanged. The worker denies everything beyond the bounds, and
 * everything at all if the policy is no longer valid: then it has a problem. */
int policy_text_stored(struct str json, uint32_t endpoints, const struct policy_bounds *b,
                       struct policy_text **ret, struct err *e);

#endif
