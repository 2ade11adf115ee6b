/* SPDX-License-Identifier: Apache-2.0 */
/* run --untrusted FILE: scans the program, runs it without a network, checks its output, and signs
 * a manifest of the output. No output reaches its destination before it was checked and signed. */
#ifndef CLI_RUN_UNTRUSTED_H
#define CLI_RUN_UNTRUSTED_H

#include <limits.h>

#include "base/buf.h"
#include "cli/run/changes.h"
#include "cli/run/session.h"
#include "cli/run/hook.h"
#include "cli/verb.h"

/* Inside the sandbox: the working directory, whose content is collected. */
#define UNTRUSTED_OUTPUT_INSIDE "tmp/output"
#define UNTRUSTED_OUTPUT        "/" UNTRUSTED_OUTPUT_INSIDE

/* As the command line has them. */
struct untrusted_options {
    const char *file, *input, *output, *manifest;
    struct step_options steps;
};

struct untrusted {
    const struct untrusted_options *o;
    char output[PATH_MAX - 64], manifest[PATH_MAX - 32]; /* where they will be */
    char stage[PATH_MAX];                                /* until then; "" if not made */
    int stage_fd, tar, feed;
    struct buf text;    /* the program */
    struct arena arena; /* of what the first step answered */
    struct step_answer preflight;
    char program[PLAN_TARGET_MAX]; /* its path inside */
    const char *argv[OPTION_LIST_MAX + 4];
    struct run_changes changes;
};

#define UNTRUSTED_INIT                                                                             \
    {                                                                                              \
        .stage_fd = -1, .tar = -1, .feed = -1, .changes = CHANGES_NONE                             \
    }

/* Something but `file` is set. */
bool untrusted_options_any(const struct untrusted_options *o);

void untrusted_done(struct untrusted *u);

/* Scans the program and stages it; u->argv is the command with these arguments. -ERR_DENIED if it
 * may not run. */
int untrusted_begin(struct untrusted *u, const struct untrusted_options *o, char **arguments,
                    struct err *e);

/* Mounts the program and has the session collect the output. */
int untrusted_join(struct untrusted *u, struct session *s, struct err *e);

/* After the run, which had this exit status: the output and its manifest are in their places, or
 * nothing is. */
int untrusted_end(struct untrusted *u, const struct session *s, int status, struct err *e);

#endif
