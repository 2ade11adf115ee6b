/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the hooks around an untrusted program. A step is built in unless an option or the
 * configuration assigns it to a command or to a tool of an MCP server. A hook reads JSON and
 * answers with JSON:
 *
 *     {"verdict": "allow" | "deny", "reason": "…", "findings": [{"severity": "high", …}]}
 *
 * A verdict can be left out where there are findings. A finding at or above the blocking severity
 * is a denial under any verdict. Other output, a failure and a timeout are denials, too. */
#ifndef CLI_RUN_HOOK_H
#define CLI_RUN_HOOK_H

#include "base/arena.h"
#include "base/buf.h"
#include "lib/json/value.h"
#include "engine/scan/rules.h"

struct step_choice {
    const char *command, *mcp, *tool;
};

/* As the command line has them; NULL for what it has not. */
struct step_options {
    const char *config, *block, *timeout;
    struct step_choice preflight, postflight;
};

struct step_answer {
    bool built_in; /* no external hook replaced this step */
    struct str by; /* "sandboxer", "command" or "mcp" */
    enum scan_severity block;
    const struct json *result; /* NULL if built_in */
};

/* step: "preflight" or "postflight". The result is on the arena. 0, or -ERR_DENIED after printing
 * the findings to stderr. */
int step_take(const char *step, const struct step_options *o, struct str question, struct arena *a,
              struct step_answer *ret, struct err *e);

#endif
