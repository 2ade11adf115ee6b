/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's API, so that its clients work unchanged; docs/e2b.md lists the supported parts.
 *
 * One address serves two APIs. The control plane has paths of its own beside /v1. Requests for
 * envd, which E2B runs inside each sandbox (files, processes), carry the header E2b-Sandbox-Id and
 * use any path except those below /v1; the daemon answers them itself. Both use the same functions
 * as the REST API. */
#ifndef EDGE_E2B_E2B_H
#define EDGE_E2B_E2B_H

#include "edge/core/dialect.h"

extern const struct dialect envd_files_dialect, envd_rpc_dialect, envd_dialect, e2b_code_dialect,
    e2b_service_dialect, e2b_port_dialect; /* inside sandboxes */
extern const struct dialect e2b_files_dialect, e2b_upload_dialect, e2b_dialect; /* control plane */

#endif
