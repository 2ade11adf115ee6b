/* An egress policy as it is stored and handed to workers: canonical JSON, checked and compiled
 * once, shared by whoever has to do with it. */
#ifndef CONTROL_POLICY_TEXT_H
#define CONTROL_POLICY_TEXT_H

#include "model/request.h"
#include "profile/profile.h"

struct policy_text {
    struct str json; /* of its own memory */
    /* The same without the uses that it grants, for whoever comes after the first worker that has
     * it, in this life of the daemon or the next: who dies does not say how many are left. NULL: it
     * grants none. */
    struct policy_text *spent;
    uint32_t endpoints;
    unsigned refs;
};

struct policy_text *policy_text_ref(struct policy_text *t);
void policy_text_unref(struct policy_text *t);    /* NULL is fine */
void policy_text_unrefp_(struct policy_text **t); /* for AUTO() */

/* Whether a sandbox of this profile and request has a network at all. */
bool policy_wanted(const struct profile *p, const struct create_request *q);

/* What a new sandbox may reach: what its profile lets out, and what the request asks for beside. */
int policy_text_make(const struct profile *p, const struct create_request *q,
                     struct policy_text **ret, struct err *e);

/* A policy somebody wrote, YAML or JSON; or, as JSON without a version, what the `egress` of a
 * create request has: lists of destinations. */
int policy_text_read(struct str text, struct policy_text **ret, struct err *e);

/* What the store has: taken as it is. */
struct policy_text *policy_text_stored(struct str json, uint32_t endpoints);

#endif
