/* SPDX-License-Identifier: Apache-2.0 */
/* Daytona's API, so that its clients work unchanged; docs/daytona.md lists the supported parts.
 *
 * All paths are below /daytona: the control plane, and below /daytona/toolbox/ID the toolbox, which
 * Daytona runs inside each sandbox (files, processes, git) and the daemon provides from outside.
 * Both use the same functions as the REST API. */
#ifndef EDGE_DAYTONA_DAYTONA_H
#define EDGE_DAYTONA_DAYTONA_H

#include "edge/core/dialect.h"

extern const struct dialect daytona_preview_dialect, toolbox_files_dialect, toolbox_dialect,
    daytona_dialect;

#endif
