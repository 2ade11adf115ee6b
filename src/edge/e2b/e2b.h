/* SPDX-License-Identifier: Apache-2.0 */
/* E2B's API, so that its clients work unchanged; docs/e2b.md lists the supported parts.
 *
 * One address serves two APIs. The control plane has paths of its own beside /v1. Requests for
 * envd, which E2B runs inside each sandbox (files, processes), carry the header E2b-Sandbox-Id and
 * use any path except those below /v1; the daemon answers them itself. Both use the same functions
 * as the REST API. */
#ifndef EDGE_E2B_E2B_H
#define EDGE_E2B_E2B_H

#include "edge/core/call.h"

int e2b_open(struct api *a, struct err *e); /* blocks: call it before the loop runs */
void e2b_close(struct api *a);              /* no new builds and watchers */
void e2b_done(struct api *a);

/* Routes a request to a port of a sandbox; `path` is not decoded. False if the request names no
 * sandbox or is for /v1. */
bool e2b_route_inside(struct call *c, struct str path);
/* Routes a request to E2B's control plane. False if it is for another API. */
bool e2b_route(struct call *c);

#endif
