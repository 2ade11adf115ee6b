/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a tool call that was approved before, on behalf of `user` and without a client. The tool
 * sees an ordinary request; its notifications are discarded. */
#ifndef EDGE_MCP_JOB_H
#define EDGE_MCP_JOB_H

#include "edge/mcp/request.h"

struct mcp_job {
    const struct mcp_offer *offer; /* that has the tool; NULL: the server's */
    /* Called once, from the loop or from inside mcp_job_start(), with the result of tools/call or,
     * if `result` is NULL, with the reason of the failure. Both are borrowed for the call. */
    void (*done)(struct mcp_job *j, const struct json *result, const char *error);
    /* private */
    struct mcp_out out_;
    struct mcp_session *session_;
};

/* `user` as in mcp_session_new(). The job must live until done() is called. */
void mcp_job_start(struct mcp_server *server, void *user, void (*free_user)(void *user),
                   struct str tool, const struct json *arguments, struct mcp_job *j);

#endif
