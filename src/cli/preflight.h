/* Steps around an untrusted program: each looks, and says whether it goes on. A step is ours, or a
 * command that is given JSON and answers JSON:
 *
 *     {"verdict": "allow" | "deny", "reason": "…", "findings": […]}
 *
 * Anything else, a failure and silence are a denial. */
#ifndef CLI_PREFLIGHT_H
#define CLI_PREFLIGHT_H

#include <stdint.h>

#include "base/buf.h"

enum { STEP_ANSWER_MAX = 4 << 20 };

/* Looks at the program, by `command` or, if that is NULL, with our own rules, by which a finding of
 * `block` denies. 0, and what it found is in out as JSON; or -ERR_DENIED, after telling what was
 * found on stderr. */
int preflight(const char *file, struct str text, const char *block, const char *command,
              int64_t timeout_ns, struct buf *out, struct err *e);

/* Asks a command; `question` is what it is given. The same results. */
int step_ask(const char *step, const char *command, struct str question, int64_t timeout_ns,
             struct buf *out, struct err *e);

#endif
