/* SPDX-License-Identifier: Apache-2.0 */
/* The command that `approvals watch --exec` runs for each held call: by sh, in the session of the
 * person who watches, one at a time, with the call as JSON on stdin. Nothing of the call, which its
 * caller made, is among the arguments. */
#ifndef CLI_APPROVAL_HOOK_H
#define CLI_APPROVAL_HOOK_H

#include <sys/types.h>

#include "base/err.h"
#include "lib/json/value.h"

enum { APPROVAL_HOOK_S = 30 }; /* its time; then it is killed */

struct approval_hook {
    const char *command; /* NULL: none; set by the caller */
    pid_t pid;           /* 0: none runs */
    int64_t deadline;    /* while one runs; clock_mono() */
};

/* Whether the next one can start. */
bool approval_hook_is_free(const struct approval_hook *h);
int approval_hook_start(struct approval_hook *h, const struct json *call, struct err *e);
/* Reaps one that has ended, and kills one whose time is over: to be called at SIGCHLD and at the
 * deadline. -ERR_UPSTREAM: it failed. */
int approval_hook_check(struct approval_hook *h, struct err *e);
/* Kills one that runs. */
void approval_hook_done(struct approval_hook *h);

#endif
