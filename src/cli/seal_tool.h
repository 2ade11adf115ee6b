/* Work for sandboxer-seal, which has cryptography and we have not; and for commands that stand in
 * for a step. */
#ifndef CLI_SEAL_TOOL_H
#define CLI_SEAL_TOOL_H

#include <stdint.h>

#include "base/buf.h"

enum { SEAL_TOOL_OUT_MAX = 96 << 20 };

/* Runs it with these arguments (NULL-terminated, without its name); stdin is the text. 0, and what
 * it printed is in out; or -ERR_UPSTREAM, and its complaint. */
int seal_tool_run(const char *const *arguments, struct str text, struct buf *out, struct err *e);

/* The same with our stdout and stderr: its exit status. */
int seal_tool_show(const char *const *arguments, int *ret_status, struct err *e);

/* `sh -c command` with our environment and stderr, stdin from the text; what it printed. It, and
 * all of its process group, is killed after timeout_ns: -ERR_TIMEOUT. -ERR_UPSTREAM for any end but
 * exit status 0, -ERR_TOO_BIG if it prints more than out can hold. */
int step_command_run(const char *command, struct str text, int64_t timeout_ns, struct buf *out,
                     struct err *e);

#endif
