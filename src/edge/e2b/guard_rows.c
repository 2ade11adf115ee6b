/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/e2b/internal.h"

#define E2B "/sandboxes/{id}"
#define RPC "/process.Process/"
#define FS  "/filesystem.Filesystem/"

#define GET    H1_GET
#define POST   H1_POST
#define PUT    H1_PUT
#define DELETE H1_DELETE

const struct guard_row e2b_guard_rows[] = {
    /* the control plane */
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

    /* inside a sandbox: checked as the holder of the key that the access token was issued to */
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
    { .path = NULL },
};
