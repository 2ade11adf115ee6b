/* Requests to servers inside, which Daytona's clients find at an address of ours. */
#ifndef API_DAYTONA_PREVIEW_H
#define API_DAYTONA_PREVIEW_H

#include "api/call.h"

/* Finds the route of such a request; `path` is as it came. False: it is none. */
bool preview_route(struct call *c, struct str path);
bool preview_by_token(struct call *c); /* who asks; false: it is answered */

#endif
