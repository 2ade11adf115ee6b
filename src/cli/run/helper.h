/* SPDX-License-Identifier: Apache-2.0 */
/* Runs helper programs, which link libraries that the command line does not: sandboxer-egress reads
 * policies, sandboxer-seal has cryptography, sandboxer-step the configuration and network clients. */
#ifndef CLI_RUN_HELPER_H
#define CLI_RUN_HELPER_H

#include <sys/types.h>

#include "base/buf.h"

enum helper_program { HELPER_EGRESS, HELPER_SEAL, HELPER_STEP };
enum { HELPER_OUT_MAX = 96 << 20 };

/* Runs it with these arguments (NULL-terminated, without its name) and this file as stdin: 0, and its output is in out. -ERR_INVALID if it failed, with the
 * first line of its stderr; -ERR_UPSTREAM if it failed without a message. */
int helper_run(enum helper_program h, const char *const *arguments, int in, struct buf *out,
               struct err *e);

/* The same in two steps, for an input that is written in between. helper_call_done() ends one that
 * was not finished. */
struct helper_call {
    enum helper_program program;
    pid_t pid; /* 0: not running */
    int said, complaint;
};
int helper_start(enum helper_program h, const char *const *arguments, int in,
                 struct helper_call *ret, struct err *e);
int helper_finish(struct helper_call *c, struct buf *out, struct err *e);
void helper_call_done(struct helper_call *c);

/* The same with a text as stdin. */
int helper_run_text(enum helper_program h, const char *const *arguments, struct str text,
                    struct buf *out, struct err *e);

/* Runs it with our stdout and stderr: its exit status. */
int helper_show(enum helper_program h, const char *const *arguments, int *ret_status,
                struct err *e);

/* The error of a helper that failed: the first line of its stderr, which was written to fd. */
int helper_failed(enum helper_program h, int fd, struct err *e);

#endif
