/* SPDX-License-Identifier: Apache-2.0 */
/* The workspace that the person who configures an MCP client grants to its sessions (`sandboxer mcp
 * --workspace`). */
#ifndef CLI_MCP_WORKSPACE_H
#define CLI_MCP_WORKSPACE_H

#include <limits.h>

#include "cli/api_call.h"
#include "cli/run/network_options.h"
#include "domain/model/request.h"

enum { MCP_GRANT_MAX = 24 << 10 }; /* in a header field, whose head has at most 32 KiB */

struct mcp_workspace_options {
    const char *dir; /* DIR, DIR:ro or DIR:rw; NULL: no workspace */
    const char *profile, *name;
    struct network_options network;
};

struct mcp_grant {
    const struct mcp_workspace_options *o;
    char dir[PATH_MAX];
    bool read_only;
    char name[SANDBOX_NAME_MAX]; /* of the sandbox */
    struct buf text;             /* the request, for the daemon */
};

/* Opens the directory and adds the grant to the request that begins the session; both must live as
 * long as the request. A status. */
int mcp_grant_add(struct mcp_grant *g, const struct mcp_workspace_options *o, struct api_call *c);
/* After the session: waits until its sandbox is gone or stopped, and tells where its changes are. */
void mcp_grant_report(const struct mcp_grant *g, const struct api_call *c);
void mcp_grant_done(struct mcp_grant *g);

#endif
