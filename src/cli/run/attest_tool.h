/* SPDX-License-Identifier: Apache-2.0 */
/* Runs helper programs with dependencies that the CLI lacks: sandboxer-seal for cryptography,
 * sandboxer-step for the configuration and network clients. */
#ifndef CLI_RUN_SIGN_TOOL_H
#define CLI_RUN_SIGN_TOOL_H

#include <stdint.h>

#include "base/buf.h"

#define SEAL_TOOL "sandboxer-seal"
#define STEP_TOOL "sandboxer-step"

enum { SEAL_TOOL_OUT_MAX = 96 << 20 };

/* Runs it with these arguments (NULL-terminated, without its name); stdin is the text. 0, and what
 * it printed is in out; or -ERR_UPSTREAM, and its complaint. */
int seal_tool_run(const char *const *arguments, struct str text, struct buf *out, struct err *e);

/* The same with our stdout and stderr: its exit status. */
int seal_tool_show(const char *const *arguments, int *ret_status, struct err *e);

/* For callers that start the tool themselves. seal_tool_complain() returns -ERR_UPSTREAM with the
 * first line of the tool's stderr; seal_tool_read_report() reads a pipe until it is closed:
 * -ERR_TIMEOUT or -ERR_TOO_BIG. */
int seal_tool_complain(int fd, struct err *e);
int seal_tool_read_report(int from, int64_t deadline, struct buf *out, struct err *e);

/* The same for sandboxer-step, which has steps taken by others and gets our environment and stderr.
 */
int step_tool_run(const char *const *arguments, struct str text, struct buf *out, struct err *e);

#endif
