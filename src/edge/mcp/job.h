/* A call of a tool that no client makes: it was allowed before, and is run for whoever the user
 * stands for. The tool sees a request like any other, whose client hears nothing on the way. */
#ifndef MCP_JOB_H
#define MCP_JOB_H

#include "mcp/request.h"

struct mcp_job {
    /* Told once, from the loop or from inside mcp_job_start(). `result` is what tools/call would
     * answer, or NULL: then `error` says why there is none. Both are borrowed for the call. */
    void (*done)(struct mcp_job *j, const struct json *result, const char *error);
    /* private */
    struct mcp_out out_;
    struct mcp_session *session_;
};

/* `user` as in mcp_session_new(). The job stays until it is told. */
void mcp_job_start(struct mcp_server *server, void *user, void (*free_user)(void *user),
                   struct str tool, const struct json *arguments, struct mcp_job *j);

#endif
