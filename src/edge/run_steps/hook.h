/* SPDX-License-Identifier: Apache-2.0 */
/* An external check before or after an untrusted run: a command, or a tool of an MCP server. It
 * receives JSON and answers JSON within its deadline, or it has failed. */
#ifndef EDGE_HOOKS_HOOK_H
#define EDGE_HOOKS_HOOK_H

#include <stdint.h>

#include "base/buf.h"
#include "lib/json/value.h"

enum { STEP_ANSWER_MAX = 4 << 20, STEP_WORDS_MAX = 64 };

enum step_kind { STEP_BUILT_IN, STEP_COMMAND, STEP_MCP_PIPE, STEP_MCP_WEB };

struct step {
    enum step_kind kind;
    const char *argv[STEP_WORDS_MAX + 1]; /* of a command or a server on pipes */
    const char *url, *tool;
    int64_t timeout_ns;
};

/* Appends its answer to `out`. Kills the command's whole process group at the end. */
int step_by_command(const struct step *s, struct str question, struct buf *out, struct err *e);
int step_by_pipe(const struct step *s, const struct json *question, struct buf *out, struct err *e);
int step_by_web(const struct step *s, const struct json *question, struct buf *out, struct err *e);

#endif
