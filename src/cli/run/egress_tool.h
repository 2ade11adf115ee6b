/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about policies to sandboxer-egress, which can read them and we cannot. */
#ifndef CLI_RUN_EGRESS_TOOL_H
#define CLI_RUN_EGRESS_TOOL_H

#include "base/buf.h"

enum { EGRESS_TOOL_OUT_MAX = 64 << 20 };

/* Runs it with these options (NULL-terminated, without its name); stdin is the text. 0, and what it
 * printed is in out; -ERR_INVALID, and its complaint, which holds the first line of stderr. */
int egress_tool_run(const char *const *options, struct str text, struct buf *out, struct err *e);

/* The same with a file as stdin. */
int egress_tool_read(const char *const *options, int in, struct buf *out, struct err *e);

#endif
