/* Daytona's interface, so that its clients work as they are: docs/daytona.md says what they find.
 *
 * Everything is below /daytona: the control plane, and below /daytona/toolbox/ID what Daytona runs
 * inside of each sandbox (files, processes, git), which we answer for from outside. All of it calls
 * the same functions as our own interface. */
#ifndef API_DAYTONA_DAYTONA_H
#define API_DAYTONA_DAYTONA_H

#include "api/call.h"

/* Finds the route of a request that is for Daytona's interface. False: it is not. */
bool daytona_route(struct call *c);

#endif
