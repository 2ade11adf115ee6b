/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/rest/routes.h"

static const struct route *const tables[] = {
    routes_sandboxes,  routes_run,
    routes_processes,  routes_files,
    routes_events,     routes_profiles,
    routes_hosts,      routes_images,
    routes_expire,     routes_tokens,
    routes_sync,       routes_egress,
    routes_egress_log, routes_peers,
    routes_approvals,  routes_trust,
    routes_snapshots,  routes_snapshot_files,
    routes_meta,       routes_secrets,
    routes_audit,      routes_mcp,
    routes_ports,      routes_ssh,
    routes_daemon,     routes_checkpoints,
    routes_commands,   NULL,
};

const struct dialect rest_dialect = {
    .name = "rest", .native = true, .tables = tables, .guards = rest_guard_rows
};
