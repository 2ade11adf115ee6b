/* SPDX-License-Identifier: Apache-2.0 */
/* Previews: requests to servers in sandboxes. */
#ifndef EDGE_DAYTONA_PREVIEW_H
#define EDGE_DAYTONA_PREVIEW_H

#include "edge/core/call.h"

/* Routes a request to a preview; `path` is not decoded. False if it is not for a preview. */
bool preview_route(struct call *c, struct str path);
bool preview_authenticate(struct call *c); /* returns false after it has answered the call */

#endif
