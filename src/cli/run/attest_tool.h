/* Work for programs of ours that have what we have not: sandboxer-seal cryptography, sandboxer-step
 * the configuration and ways to servers. */
#ifndef CLI_SEAL_TOOL_H
#define CLI_SEAL_TOOL_H

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

/* For whoever starts it otherwise: -ERR_UPSTREAM with the first line of its complaint; and what is
 * said on a pipe until that is closed, -ERR_TIMEOUT or -ERR_TOO_BIG. */
int seal_tool_complain(int fd, struct err *e);
int seal_tool_hear(int from, int64_t deadline, struct buf *out, struct err *e);

/* The same for sandboxer-step, which has steps taken by others and gets our environment and stderr.
 */
int step_tool_run(const char *const *arguments, struct str text, struct buf *out, struct err *e);

#endif
