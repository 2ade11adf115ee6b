/* After an untrusted program: what it made, whether that may leave, and a signed manifest. */
#ifndef CLI_POSTFLIGHT_H
#define CLI_POSTFLIGHT_H

#include "cli/step.h"

struct postflight {
    const char *stage;   /* has program/program and output/output */
    const char *program; /* its name */
    struct str changes;  /* in the sandbox, as changes_end() tells them */
    const struct step_answer *preflight;
    const struct step_options *options;
    int status; /* the program's */
};

/* 0, and the signed manifest is in out; -ERR_DENIED, after telling why on stderr. */
int postflight(const struct postflight *p, struct buf *out, struct err *e);

#endif
