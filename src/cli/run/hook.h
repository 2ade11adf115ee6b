/* Who takes a step around an untrusted program, and what they say. A step is ours unless an option
 * or the configuration gives it to a command or to a tool of an MCP server. These are given JSON
 * and answer with JSON:
 *
 *     {"verdict": "allow" | "deny", "reason": "…", "findings": [{"severity": "high", …}]}
 *
 * A verdict can be left out where there are findings. A finding as severe as blocks is a denial
 * whatever the verdict. Anything else, a failure and silence are a denial, too. */
#ifndef CLI_STEP_H
#define CLI_STEP_H

#include "base/arena.h"
#include "base/buf.h"
#include "json/value.h"
#include "scan/rules.h"

struct step_choice {
    const char *command, *mcp, *tool;
};

/* As the command line has them; NULL for what it has not. */
struct step_options {
    const char *config, *block, *timeout;
    struct step_choice preflight, postflight;
};

struct step_answer {
    bool ours;     /* nobody stands in for us */
    struct str by; /* "sandboxer", "command" or "mcp" */
    enum scan_severity block;
    const struct json *result; /* unless it is ours */
};

/* step: "preflight" or "postflight". What is returned is on the arena. 0, or -ERR_DENIED after
 * telling the findings on stderr. */
int step_take(const char *step, const struct step_options *o, struct str question, struct arena *a,
              struct step_answer *ret, struct err *e);

#endif
