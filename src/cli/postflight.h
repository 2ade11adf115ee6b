/* After an untrusted program: what it made, whether that may leave, and a signed manifest. */
#ifndef CLI_POSTFLIGHT_H
#define CLI_POSTFLIGHT_H

#include <stdint.h>

#include "base/buf.h"

struct postflight {
    const char *stage;        /* has program/program and output/output */
    const char *program;      /* its name */
    struct str changes;       /* in the sandbox, as changes_end() tells them */
    struct str preflight;     /* what the first step answered, as JSON */
    const char *preflight_by; /* the command that did; NULL: our own rules */
    const char *command;      /* decides whether the output may leave; NULL: our own rules */
    int64_t timeout_ns;
    int status; /* the program's */
};

/* 0, and the signed manifest is in out; -ERR_DENIED, after telling why on stderr. */
int postflight(const struct postflight *p, struct buf *out, struct err *e);

#endif
