/* SPDX-License-Identifier: Apache-2.0 */
/* Runs helper programs, which link libraries that the command line does not: sandboxer-egress reads
 * policies, sandboxer-seal has cryptography, sandboxer-step the configuration and network clients. */
#ifndef CLI_RUN_HELPER_H
#define CLI_RUN_HELPER_H

#include "base/buf.h"

enum helper_program { HELPER_EGRESS, HELPER_SEAL, HELPER_STEP };
enum { HELPER_OUT_MAX = 96 << 20 };

/* Runs it with these arguments (NULL-terminated, without its name) and this file as stdin: 0, and its output is in out. -ERR_INVALID if it failed, with the
 * first line of its stderr; -ERR_UPSTREAM if it failed without a message. */
int helper_run(enum helper_program h, const char *const *arguments, int in, struct buf *out,
               struct err *e);

/* The same with a text as stdin. */
int helper_run_text(enum helper_program h, const char *const *arguments, struct str text,
                    struct buf *out, struct err *e);

/* Runs it with our stdout and stderr: its exit status. */
int helper_show(enum helper_program h, const char *const *arguments, int *ret_status,
                struct err *e);

/* The error of a helper that failed: the first line of its stderr, which was written to fd. */
int helper_failed(enum helper_program h, int fd, struct err *e);

#endif
