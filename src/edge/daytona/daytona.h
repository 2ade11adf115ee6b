/* SPDX-License-Identifier: Apache-2.0 */
/* Daytona's API, so that its clients work unchanged; docs/daytona.md lists the supported parts.
 *
 * All paths are below /daytona: the control plane, and below /daytona/toolbox/ID the toolbox, which
 * Daytona runs inside each sandbox (files, processes, git) and the daemon provides from outside.
 * Both use the same functions as the REST API. */
#ifndef EDGE_DAYTONA_DAYTONA_H
#define EDGE_DAYTONA_DAYTONA_H

#include "edge/core/call.h"

/* Routes a request to Daytona's API. False if it is for another API. */
bool daytona_route(struct call *c);

#endif
