/* The bundle in force: read from a file, and again when it is asked for. */
#ifndef TRUST_POLICY_H
#define TRUST_POLICY_H

#include "trust/bundle.h"
#include "trust/decide.h"

struct trust_policy {
    const char *file; /* borrowed; NULL: the one that is built in */
    enum trust_failure failure;
    unsigned mode; /* enum trust_mode + 1, instead of the bundle's own; 0: as that says */
    struct trust_bundle *bundle; /* NULL: none could be loaded, and that is so by `failure` */
    struct err problem;          /* of the last load; code 0: none */
    int64_t loaded_ns;           /* wall clock */
};

/* Loads the file. If that fails, what `failure` says is in force, and `problem` why. */
void trust_policy_open(struct trust_policy *p, const char *file, enum trust_failure failure,
                       unsigned mode);
void trust_policy_done(struct trust_policy *p);

/* Loads it again: the whole new one is in force, or, after a failure, still the last good one. 1 if
 * it is another one than before. */
int trust_policy_reload(struct trust_policy *p, struct err *e);

#endif
