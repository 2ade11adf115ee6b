/* SPDX-License-Identifier: Apache-2.0 */
/* The REST API: its tables of routes, and its dialect. */
#ifndef EDGE_REST_ROUTES_H
#define EDGE_REST_ROUTES_H

#include "edge/core/dialect.h"

/* One array per resource, ended by a row without a path. */
extern const struct route routes_sandboxes[], routes_run[], routes_processes[], routes_files[],
    routes_events[], routes_profiles[], routes_hosts[], routes_images[], routes_expire[],
    routes_tokens[], routes_sync[], routes_egress[], routes_egress_log[], routes_peers[],
    routes_approvals[], routes_trust[], routes_snapshots[], routes_snapshot_files[], routes_meta[],
    routes_checkpoints[], routes_secrets[], routes_audit[], routes_mcp[], routes_ports[],
    routes_ssh[], routes_daemon[], routes_commands[];
extern const struct guard_row rest_guard_rows[];

extern const struct dialect rest_dialect;

#endif
