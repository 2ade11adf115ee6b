/* SPDX-License-Identifier: Apache-2.0 */
/* The copy of a workspace does not follow its directory: before a command of a session with one
 * runs, the directory is compared with what was copied, so that the model knows. */
#ifndef EDGE_TOOLS_LOOK_H
#define EDGE_TOOLS_LOOK_H

#include "edge/tools/tools.h"

/* `hint`: the differences, on the arena of the request; NULL: there are none, or the sandbox has no
 * copy. */
typedef void mcp_looked_fn(struct mcp_request *r, const struct json *v, const char *hint);

/* Calls `go`, now or later, with the arguments v of the call; not if the call is cancelled. */
void mcp_look_at_directory(struct mcp_request *r, const struct json *v, mcp_looked_fn *go);

#endif
