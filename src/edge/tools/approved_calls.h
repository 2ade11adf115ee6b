/* Calls of tools that waited for a master: running them, and telling who asked. */
#ifndef API_MCP_APPROVED_H
#define API_MCP_APPROVED_H

#include "api/approved.h"
#include "api/mcp.h"

/* In _meta of tools/call: the outcome of a call that was held, instead of another one; and for how
 * many seconds it is waited for. */
#define MCP_REQUEST_ID "sandboxer/request_id"
#define MCP_WAIT_S     "sandboxer/wait_s"

/* True: the request is about a call that was held, and will be answered. */
bool mcp_approval_asked(struct mcp_request *r);

/* approval://ID as a resource. */
bool mcp_approval_watchable(struct mcp_session *s, struct str id);
void mcp_approval_read(struct mcp_request *r, struct str uri, struct str id);
/* A held call has moved: those who watch it hear of it, and the sessions of its peer when it is
 * over. */
void mcp_approval_event(struct api *a, const struct event_record *v);

/* Runs one, which is a call of a tool; as approved_run() does. */
void mcp_run_approved(struct api *a, struct trust_call *c, struct peer *p,
                      const struct caller *who);

#endif
