/* Resources that change without an event: they are watched where they are, for as long as somebody
 * watches them. Each answers the request, with mcp_watched_by() if it goes well. */
#ifndef API_MCP_WATCH_H
#define API_MCP_WATCH_H

#include "api/mcp.h"

enum { MCP_FILES_WATCHED_MAX = 16 }; /* by one session: each is a process in its sandbox */

/* A file, or a directory with what is in it. */
void mcp_watch_file(struct mcp_request *r, struct sandbox *s, const char *path);
/* What background processes write. */
void mcp_watch_logs(struct mcp_request *r, const char *sandbox);

#endif
