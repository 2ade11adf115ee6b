/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/guard_rows.h"

#include <string.h>

#include "edge/core/daytona_paths.h"
#include "edge/core/route.h"

#define BOX    "/v1/sandboxes/{id}"
#define PROC   BOX "/processes"
#define FILES  BOX "/files"
#define E2B    "/sandboxes/{id}"
#define RPC    "/process.Process/"
#define FS     "/filesystem.Filesystem/"
#define IN     DAYTONA_INSIDE
#define SES    IN "/process/session"
#define PTY    IN "/process/pty"
#define INTERP IN "/process/interpreter"
#define GIT    IN "/git/"

#define GET    H1_GET
#define POST   H1_POST
#define PUT    H1_PUT
#define DELETE H1_DELETE

const struct guard_row guard_rows[] = {
    /* --- the REST interface --- */
    { GET, "/v1/sandboxes", "sandbox_list", .flags = 0 },
    { GET, BOX, "sandbox_list", .flags = 0 },
    { POST, "/v1/sandboxes", "sandbox_create", .flags = GUARD_LATER },
    { DELETE, BOX, "sandbox_destroy", .flags = 0 },
    { POST, BOX "/recreate", "sandbox_create", .flags = GUARD_COPY },
    { POST, BOX "/extend-ttl", "sandbox_extend", .flags = 0 },
    { POST, "/v1/run", "sandbox_run", .flags = GUARD_LATER | GUARD_NOW },
    { POST, PROC, "sandbox_exec", .flags = 0 },
    { GET, PROC, "sandbox_list", .flags = 0 },
    { GET, PROC "/new", "sandbox_exec", .flags = GUARD_NOW },
    { GET, PROC "/{n}", "sandbox_list", .flags = 0 },
    { DELETE, PROC "/{n}", "sandbox_exec", .flags = 0 },
    { GET, PROC "/{n}/attach", "sandbox_exec", .flags = GUARD_NOW },
    { POST, PROC "/{n}/signal", "sandbox_exec", .flags = 0 },
    { POST, PROC "/{n}/stdin", "sandbox_exec", .flags = GUARD_NOW },
    { POST, PROC "/{n}/resize", "sandbox_exec", .flags = 0 },
    { GET, BOX "/logs", "sandbox_inspect", .flags = GUARD_NOW },
    { GET, FILES, "sandbox_read", .flags = 0 },
    { PUT, FILES, "sandbox_write", .flags = 0 },
    { DELETE, FILES, "sandbox_write", .flags = 0 },
    { GET, FILES "/stat", "sandbox_read", .flags = 0 },
    { GET, FILES "/list", "sandbox_read", .flags = 0 },
    { POST, FILES "/mkdir", "sandbox_write", .flags = 0 },
    { POST, FILES "/rename", "sandbox_write", .paths = "from to" },
    { GET, FILES "/watch", "sandbox_read", .flags = GUARD_NOW },
    { GET, FILES "/tar", "sandbox_read", .flags = 0 },
    { PUT, FILES "/tar", "sandbox_write", .flags = 0 },
    { POST, BOX "/sync", "sandbox_write", .flags = 0 },
    { GET, "/v1/events", "sandbox_inspect", .flags = GUARD_NOW },
    { GET, BOX "/events", "sandbox_inspect", .flags = GUARD_NOW },
    { GET, BOX "/egress", "sandbox_inspect", .flags = 0 },
    { PUT, BOX "/egress", "sandbox_network", .flags = GUARD_LATER },
    { GET, BOX "/egress/log", "sandbox_inspect", .flags = GUARD_NOW },
    { GET, BOX "/audit", "sandbox_inspect", .flags = 0 },
    { GET, BOX "/egress/denials", "sandbox_inspect", .flags = 0 },
    { POST, BOX "/snapshot", "sandbox_snapshot", .flags = 0 },
    { POST, BOX "/fork", "sandbox_create", .flags = GUARD_COPY },
    { POST, BOX "/pause", "sandbox_extend", .flags = 0 },
    { POST, BOX "/stop", "sandbox_extend", .flags = 0 },
    { POST, BOX "/resume", "sandbox_extend", .flags = 0 },
    { GET, BOX "/diff", "sandbox_inspect", .flags = 0 },
    { GET, "/v1/snapshots", "sandbox_inspect", .flags = 0 },
    { GET, "/v1/snapshots/{snapshot}", "sandbox_inspect", .flags = 0 },
    { POST, "/v1/snapshots/{snapshot}/verify", "sandbox_inspect", .flags = 0 },
    { DELETE, "/v1/snapshots/{snapshot}", "sandbox_snapshot", .flags = 0 },
    { GET, "/v1/snapshots/{snapshot}/export", "sandbox_snapshot", .flags = GUARD_NOW },
    { POST, "/v1/snapshots/import", "sandbox_snapshot", .flags = GUARD_NOW },
    { POST, BOX "/commit", "image_manage", .flags = 0 },
    { GET, "/v1/images", "image_list", .flags = 0 },
    { GET, "/v1/images/inspect", "image_list", .flags = 0 },
    { DELETE, "/v1/images", "image_manage", .flags = 0 },
    { POST, "/v1/images/pull", "image_manage", .flags = GUARD_NOW },
    { POST, "/v1/images/import", "image_manage", .flags = GUARD_NOW },
    { POST, "/v1/images/prune", "image_manage", .flags = 0 },
    { POST, "/v1/images/verify", "image_manage", .flags = GUARD_NOW },
    { GET, BOX "/ports/{port}", "sandbox_connect", .flags = GUARD_NOW },
    { GET, BOX "/ssh", "sandbox_exec", .flags = GUARD_NOW },
    { POST, BOX "/ssh", "sandbox_exec", .flags = GUARD_NOW },
    { POST, "/v1/expire", "sandbox_expire", .flags = 0 },

    /* not about a sandbox: public, or restricted by verb and owner */
    { GET, "/v1/profiles", NULL, .flags = 0 },
    { GET, "/v1/profiles/{id}", NULL, .flags = 0 },
    { POST, "/v1/profiles/validate", NULL, .flags = 0 },
    { POST, "/v1/estimate", NULL, .flags = 0 },
    { GET, "/v1/hosts", NULL, .flags = 0 },
    { POST, "/v1/hosts", NULL, .flags = 0 },
    { DELETE, "/v1/hosts/{name}", NULL, .flags = 0 },
    { GET, "/v1/inspect/host", NULL, .flags = 0 },
    { GET, "/v1/inspect/stale", NULL, .flags = 0 },
    { POST, "/v1/reap-stale", NULL, .flags = 0 },
    { GET, "/v1/tokens", NULL, .flags = 0 },
    { POST, "/v1/tokens", NULL, .flags = 0 },
    { DELETE, "/v1/tokens/{id}", NULL, .flags = 0 },
    { POST, "/v1/egress/check", NULL, .flags = 0 },
    { POST, "/v1/egress/explain", NULL, .flags = 0 },
    { GET, "/v1/peers", NULL, .flags = 0 },
    { POST, "/v1/peers", NULL, .flags = 0 },
    { POST, "/v1/peers/{id}/heartbeat", NULL, .flags = 0 },
    { DELETE, "/v1/peers/{id}", NULL, .flags = 0 },
    { GET, "/v1/approvals", NULL, .flags = 0 },
    { GET, "/v1/approvals/{id}", NULL, .flags = GUARD_SESSION },
    { POST, "/v1/approvals/{id}/approve", NULL, .flags = 0 },
    { POST, "/v1/approvals/{id}/reject", NULL, .flags = 0 },
    { GET, "/v1/trust", NULL, .flags = GUARD_SESSION },
    { POST, "/v1/trust/reload", NULL, .flags = 0 },
    { POST, "/v1/trust/validate", NULL, .flags = 0 },
    { POST, "/v1/trust/explain", NULL, .flags = 0 },
    { POST, "/v1/trust/evaluate", NULL, .flags = GUARD_SESSION }, /* it requests a verdict itself */
    { GET, "/healthz", NULL, .flags = GUARD_SESSION },
    { GET, "/version", NULL, .flags = GUARD_SESSION },
    { GET, "/openapi.json", NULL, .flags = GUARD_SESSION },
    { GET, "/metrics", NULL, .flags = 0 },
    { GET, "/v1/backup", NULL, .flags = 0 },
    { GET, "/v1/audit/head", NULL, .flags = 0 },
    { GET, "/v1/audit/verify", NULL, .flags = 0 },
    { GET, "/v1/secrets/key", NULL, .flags = 0 },
    { POST, "/v1/secrets/rotate-key", NULL, .flags = 0 },
    { POST, "/mcp", NULL, .flags = 0 }, /* each tool call is checked */
    { GET, "/mcp", NULL, .flags = 0 },
    { DELETE, "/mcp", NULL, .flags = 0 },

    /* --- E2B: the control plane --- */
    { GET, "/sandboxes", "sandbox_list", .flags = 0 },
    { GET, "/v2/sandboxes", "sandbox_list", .flags = 0 },
    { POST, "/sandboxes", "sandbox_create", .flags = GUARD_LATER | GUARD_LAUNCHES },
    { POST, "/v2/sandboxes", "sandbox_create", .flags = GUARD_LATER | GUARD_LAUNCHES },
    { GET, E2B, "sandbox_list", .flags = 0 },
    { DELETE, E2B, "sandbox_destroy", .flags = 0 },
    { POST, E2B "/timeout", "sandbox_extend", .flags = 0 },
    { POST, E2B "/refreshes", "sandbox_extend", .flags = 0 },
    { POST, E2B "/pause", "sandbox_extend", .flags = 0 },
    { POST, E2B "/connect", "sandbox_extend", .flags = 0 },
    { POST, "/v2" E2B "/connect", "sandbox_extend", .flags = 0 },
    { POST, E2B "/resume", "sandbox_extend", .flags = 0 },
    { PUT, E2B "/network", "sandbox_network", .flags = GUARD_LATER },
    { GET, E2B "/logs", "sandbox_inspect", .flags = 0 },
    { GET, "/v2" E2B "/logs", "sandbox_inspect", .flags = 0 },
    { GET, E2B "/metrics", "sandbox_inspect", .flags = 0 },
    { POST, E2B "/snapshots", "sandbox_snapshot", .flags = 0 },
    { POST, E2B "/fork", "sandbox_create", .flags = GUARD_COPY },
    { GET, "/snapshots", "sandbox_inspect", .flags = 0 },
    { GET, "/templates", "image_list", .flags = 0 },
    { GET, "/v2/templates", "image_list", .flags = 0 },
    { GET, "/templates/aliases/{alias}", "image_list", .flags = 0 },
    { POST, "/templates/tags", "image_edit", .flags = 0 },
    { DELETE, "/templates/tags", "image_edit", .flags = 0 },
    { GET, "/templates/{id}/tags", "image_list", .flags = 0 },
    { DELETE, "/templates/{id}", "image_edit", .flags = 0 },
    { H1_PATCH, "/templates/{id}", "image_edit", .flags = 0 },
    { H1_PATCH, "/v2/templates/{id}", "image_edit", .flags = 0 },
    { POST, "/v2/templates", "image_edit", .flags = 0 },
    { POST, "/v3/templates", "image_edit", .flags = 0 },
    { GET, "/templates/{id}/files/{hash}", "image_edit", .flags = 0 },
    { PUT, "/templates/{id}/files/{hash}", NULL,
      .flags = 0 }, /* authorized by the link of a checked build */
    { POST, "/v2/templates/{id}/builds/{build}", "image_build", .flags = GUARD_LATER | GUARD_NOW },
    { GET, "/templates/{id}/builds/{build}/status", "image_list", .flags = 0 },

    /* E2B inside a sandbox: checked as the holder of the key that the access token was issued to */
    { GET, "/health", NULL, .flags = GUARD_SESSION },
    { GET, "/files", "sandbox_read", .flags = GUARD_NOW },
    { POST, "/files", "sandbox_write", .flags = GUARD_NOW },
    { POST, "/files/compose", "sandbox_write", .flags = GUARD_NOW,
      .paths = "source_paths destination" },
    { POST, FS "Stat", "sandbox_read", .flags = GUARD_NOW },
    { POST, FS "MakeDir", "sandbox_write", .flags = GUARD_NOW },
    { POST, FS "Move", "sandbox_write", .flags = GUARD_NOW, .paths = "source destination" },
    { POST, FS "Remove", "sandbox_write", .flags = GUARD_NOW },
    { POST, FS "ListDir", "sandbox_read", .flags = GUARD_NOW },
    { POST, FS "WatchDir", "sandbox_read", .flags = GUARD_NOW },
    { POST, FS "CreateWatcher", "sandbox_read", .flags = GUARD_NOW },
    { POST, FS "GetWatcherEvents", "sandbox_inspect", .flags = GUARD_NOW },
    { POST, FS "RemoveWatcher", "sandbox_inspect", .flags = GUARD_NOW },
    { POST, RPC "Start", "sandbox_exec", .flags = GUARD_NOW },
    { POST, RPC "Connect", "sandbox_exec", .flags = GUARD_NOW },
    { POST, RPC "List", "sandbox_list", .flags = GUARD_NOW },
    { POST, RPC "SendInput", "sandbox_exec", .flags = GUARD_NOW },
    { POST, RPC "CloseStdin", "sandbox_exec", .flags = GUARD_NOW },
    { POST, RPC "SendSignal", "sandbox_exec", .flags = GUARD_NOW },
    { POST, RPC "Update", "sandbox_exec", .flags = GUARD_NOW },
    { POST, "/execute", "sandbox_exec", .flags = GUARD_NOW },
    { POST, "/contexts", "sandbox_exec", .flags = GUARD_NOW },
    { GET, "/contexts", "sandbox_list", .flags = GUARD_NOW },
    { DELETE, "/contexts/{id}", "sandbox_exec", .flags = GUARD_NOW },
    { POST, "/contexts/{id}/restart", "sandbox_exec", .flags = GUARD_NOW },
    { H1_OTHER, ROUTE_ANY_PORT, "sandbox_connect", .flags = GUARD_NOW | GUARD_OPAQUE },
    { H1_OTHER, ROUTE_UNKNOWN, NULL, .flags = GUARD_SESSION },

    /* --- Daytona --- */
    { GET, DAYTONA "/config", NULL, .flags = GUARD_SESSION },
    { GET, DAYTONA "/health", NULL, .flags = GUARD_SESSION },
    { GET, DAYTONA "/sandbox", "sandbox_list", .flags = 0 },
    { POST, DAYTONA "/sandbox", "sandbox_create", .flags = GUARD_LATER | GUARD_LAUNCHES },
    { GET, DAYTONA_ONE, "sandbox_list", .flags = 0 },
    { DELETE, DAYTONA_ONE, "sandbox_destroy", .flags = 0 },
    { POST, DAYTONA_ONE "/start", "sandbox_extend", .flags = 0 },
    { POST, DAYTONA_ONE "/stop", "sandbox_extend", .flags = 0 },
    { POST, DAYTONA_ONE "/pause", "sandbox_extend", .flags = 0 },
    { POST, DAYTONA_ONE "/archive", "sandbox_extend", .flags = 0 },
    { PUT, DAYTONA_ONE "/labels", "sandbox_extend", .flags = 0 },
    { POST, DAYTONA_ONE "/autostop/{interval}", "sandbox_extend", .flags = 0 },
    { POST, DAYTONA_ONE "/autodelete/{interval}", "sandbox_extend", .flags = 0 },
    { POST, DAYTONA_ONE "/ttl/{minutes}", "sandbox_extend", .flags = 0 },
    { POST, DAYTONA_ONE "/last-activity", "sandbox_extend", .flags = 0 },
    { POST, DAYTONA_ONE "/network-settings", "sandbox_network", .flags = GUARD_LATER },
    { GET, DAYTONA_ONE "/signing-key", "sandbox_write", .flags = 0 },
    { POST, DAYTONA_ONE "/signing-key/rotate", "sandbox_write", .flags = 0 },
    { GET, DAYTONA_ONE "/toolbox-proxy-url", "sandbox_list", .flags = 0 },
    { GET, DAYTONA_ONE "/ports/{port}/preview-url", "sandbox_connect", .flags = 0 },
    { GET, DAYTONA_ONE "/ports/{port}/signed-preview-url", "sandbox_connect", .flags = 0 },
    { POST, DAYTONA_ONE "/ports/{port}/signed-preview-url/{token}/expire", "sandbox_connect",
      .flags = 0 },
    { H1_OTHER, DAYTONA_ANY_PORT, "sandbox_connect", .flags = GUARD_NOW | GUARD_OPAQUE },
    { GET, DAYTONA "/snapshots", "sandbox_inspect", .flags = 0 },
    { GET, DAYTONA "/snapshots/{snapshot}", "sandbox_inspect", .flags = 0 },
    { DELETE, DAYTONA "/snapshots/{snapshot}", "sandbox_snapshot", .flags = 0 },
    { POST, DAYTONA "/snapshots/{snapshot}/activate", "sandbox_inspect", .flags = 0 },
    { POST, DAYTONA_ONE "/snapshot", "sandbox_snapshot", .flags = 0 },
    { POST, DAYTONA_ONE "/fork", "sandbox_create", .flags = GUARD_COPY },
    { GET, IN "/version", "sandbox_list", .flags = 0 },
    { GET, IN "/user-home-dir", "sandbox_list", .flags = 0 },
    { GET, IN "/work-dir", "sandbox_list", .flags = 0 },
    { GET, IN "/project-dir", "sandbox_list", .flags = 0 },
    { POST, IN "/lsp/{what}", NULL, .flags = 0 },
    { GET, IN "/lsp/{what}", NULL, .flags = 0 },
    { POST, IN "/env", NULL, .flags = 0 },
    { GET, DAYTONA "/volumes", NULL, .flags = 0 },
    { POST, DAYTONA "/volumes", NULL, .flags = 0 },
    { GET, DAYTONA "/volumes/by-name/{name}", NULL, .flags = 0 },
    { GET, DAYTONA "/secret", NULL, .flags = 0 },
    { POST, DAYTONA "/secret", NULL, .flags = 0 },
    { GET, DAYTONA "/object-storage/push-access", NULL, .flags = 0 },
    { POST, IN "/process/execute", "sandbox_exec", .flags = 0 },
    { POST, IN "/process/code-run", "sandbox_exec", .flags = 0 },
    { GET, IN "/files", "sandbox_read", .flags = 0 },
    { DELETE, IN "/files", "sandbox_write", .flags = 0 },
    { GET, IN "/files/info", "sandbox_read", .flags = 0 },
    { POST, IN "/files/folder", "sandbox_write", .flags = 0 },
    { POST, IN "/files/move", "sandbox_write", .paths = "source destination" },
    { GET, IN "/files/download", "sandbox_read", .flags = GUARD_NOW },
    { POST, IN "/files/upload", "sandbox_write", .flags = GUARD_NOW },
    { POST, IN "/files/upload-v2", "sandbox_write", .flags = GUARD_NOW },
    { POST, IN "/files/bulk-upload", "sandbox_write", .flags = GUARD_NOW },
    { POST, IN "/files/bulk-download", "sandbox_read", .paths = "paths" },
    { GET, IN "/files/search", "sandbox_read", .flags = 0 },
    { GET, IN "/files/find", "sandbox_read", .flags = 0 },
    { POST, IN "/files/replace", "sandbox_write", .paths = "files" },
    { POST, IN "/files/permissions", "sandbox_write", .flags = 0 },
    { GET, SES "/entrypoint", "sandbox_list", .flags = 0 },
    { GET, SES "/entrypoint/logs", "sandbox_list", .flags = 0 },
    { POST, SES, "sandbox_exec", .flags = 0 },
    { GET, SES, "sandbox_list", .flags = 0 },
    { GET, SES "/{session}", "sandbox_list", .flags = 0 },
    { DELETE, SES "/{session}", "sandbox_exec", .flags = 0 },
    { POST, SES "/{session}/exec", "sandbox_exec", .flags = 0 },
    { GET, SES "/{session}/command/{command}", "sandbox_list", .flags = 0 },
    { GET, SES "/{session}/command/{command}/logs", "sandbox_inspect", .flags = GUARD_NOW },
    { POST, SES "/{session}/command/{command}/input", "sandbox_exec", .flags = 0 },
    { GET, PTY "/create-connect", "sandbox_exec", .flags = GUARD_NOW },
    { POST, PTY, "sandbox_exec", .flags = 0 },
    { GET, PTY, "sandbox_list", .flags = 0 },
    { GET, PTY "/{pty}/connect", "sandbox_exec", .flags = GUARD_NOW },
    { GET, PTY "/{pty}", "sandbox_list", .flags = 0 },
    { DELETE, PTY "/{pty}", "sandbox_exec", .flags = 0 },
    { POST, PTY "/{pty}/resize", "sandbox_exec", .flags = 0 },
    { GET, INTERP "/execute", "sandbox_exec", .flags = GUARD_NOW },
    { POST, INTERP "/context", "sandbox_exec", .flags = 0 },
    { GET, INTERP "/context", "sandbox_list", .flags = 0 },
    { DELETE, INTERP "/context/{id}", "sandbox_exec", .flags = 0 },
    { POST, GIT "clone", "sandbox_exec", .flags = 0 },
    { POST, GIT "init", "sandbox_exec", .flags = 0 },
    { POST, GIT "add", "sandbox_exec", .flags = 0 },
    { POST, GIT "commit", "sandbox_exec", .flags = 0 },
    { GET, GIT "status", "sandbox_exec", .flags = 0 },
    { GET, GIT "history", "sandbox_exec", .flags = 0 },
    { GET, GIT "branches", "sandbox_exec", .flags = 0 },
    { POST, GIT "branches", "sandbox_exec", .flags = 0 },
    { DELETE, GIT "branches", "sandbox_exec", .flags = 0 },
    { POST, GIT "checkout", "sandbox_exec", .flags = 0 },
    { POST, GIT "push", "sandbox_exec", .flags = 0 },
    { POST, GIT "pull", "sandbox_exec", .flags = 0 },
    { POST, GIT "reset", "sandbox_exec", .flags = 0 },
    { POST, GIT "restore", "sandbox_exec", .flags = 0 },
    { GET, GIT "remotes", "sandbox_exec", .flags = 0 },
    { POST, GIT "remotes", "sandbox_exec", .flags = 0 },
    { GET, GIT "config", "sandbox_exec", .flags = 0 },
    { POST, GIT "config", "sandbox_exec", .flags = 0 },
    { POST, GIT "config/user", "sandbox_exec", .flags = 0 },
    { POST, GIT "credentials", "sandbox_exec", .flags = 0 },
    { .path = NULL },
};

bool guard_row_starts_programs(const struct guard_row *row)
{
    static const char *const tools[] = { "sandbox_exec", "sandbox_run", "image_build" };

    for (size_t i = 0; row && row->tool && i < COUNT_OF(tools); i++)
        if (strcmp(row->tool, tools[i]) == 0)
            return true;
    return row && (row->flags & GUARD_LAUNCHES);
}

/* --- row lookup, cached by the route's address --- */

enum { SLOTS = 1024 };

static struct {
    const struct route *route;
    const struct guard_row *row;
} known[SLOTS];

static const struct guard_row *compare_rows(const struct route *r)
{
    for (const struct guard_row *g = guard_rows; g->path; g++)
        if (g->method == r->method && strcmp(g->path, r->path) == 0)
            return g;
    return NULL;
}

const struct guard_row *guard_row_of(const struct route *r)
{
    size_t at = ((uintptr_t)r >> 3) * 2654435761u % SLOTS;

    if (known[at].route != r) {
        known[at].route = r;
        known[at].row = compare_rows(r);
    }
    return known[at].row;
}
