/* SPDX-License-Identifier: Apache-2.0 */
/* The review of a workspace's changes, file by file, on the terminal: `sync --interactive`. */
#ifndef CLI_REVIEW_H
#define CLI_REVIEW_H

#include "cli/answer.h"

struct review {
    const struct verb *verb;
    const struct common *common;
    const char *sandbox;
};

/* Fetches the changes that a sync would bring back, into c: initialised here, released by the
 * caller. An exit status. */
int review_fetch(const struct review *r, struct api_call *c);
/* The number of changes in such an answer, of which *ret_held (may be NULL) a sync leaves inside by
 * itself. */
unsigned long long review_count(const struct json *answer, unsigned long long *ret_held);

/* Asks about each change, and brings back the chosen ones; a conflict that is chosen overwrites the
 * file here. All others stay inside; *ret_left is their number. An exit status. */
int review_interactively(const struct review *r, unsigned long long *ret_left);

#endif
