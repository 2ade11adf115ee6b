/* SPDX-License-Identifier: Apache-2.0 */
/* The step after an untrusted program: lists its output, decides whether the output may leave, and
 * signs a manifest. */
#ifndef CLI_RUN_POSTFLIGHT_H
#define CLI_RUN_POSTFLIGHT_H

#include "cli/run/hook.h"

struct postflight {
    const char *stage;   /* has program/program and output/output */
    const char *program; /* its name */
    struct str changes;  /* in the sandbox, from changes_end() */
    const struct step_answer *preflight;
    const struct step_options *options;
    int status; /* the program's */
};

/* 0 with the signed manifest in `out`; -ERR_DENIED after printing the reason to stderr. */
int postflight_check(const struct postflight *p, struct buf *out, struct err *e);

#endif
