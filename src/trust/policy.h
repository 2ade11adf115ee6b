/* SPDX-License-Identifier: Apache-2.0 */
/* The bundle in force: loaded from a file, and reloaded on request. */
#ifndef TRUST_POLICY_H
#define TRUST_POLICY_H

#include "trust/bundle.h"
#include "trust/decide.h"

struct trust_policy {
    const char *file; /* borrowed; NULL: the built-in bundle */
    enum trust_failure failure;
    unsigned mode;               /* enum trust_mode + 1: overrides the bundle's mode; 0: does not */
    struct trust_bundle *bundle; /* NULL: none could be loaded; `failure` applies */
    struct err problem;          /* error of the last load; code 0: none */
    int64_t loaded_ns;           /* wall clock */
};

/* Loads the file. On failure, `failure` applies and `problem` has the error. */
void trust_policy_open(struct trust_policy *p, const char *file, enum trust_failure failure,
                       unsigned mode);
void trust_policy_done(struct trust_policy *p);

/* Reloads the file. On failure the last valid bundle stays in force. Returns 1 if the bundle
 * changed. */
int trust_policy_reload(struct trust_policy *p, struct err *e);

#endif
