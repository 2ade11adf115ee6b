/* E2B's interface, so that its clients work as they are: docs/e2b.md says what they find.
 *
 * Two things are behind one address. The control plane has paths of its own beside /v1. What E2B
 * runs inside of each sandbox (envd: files, processes) is told apart by the header E2b-Sandbox-Id,
 * on every path but those of /v1; we answer for it from outside. Both call the same functions as
 * our own interface. */
#ifndef API_E2B_E2B_H
#define API_E2B_E2B_H

#include "api/call.h"

int e2b_open(struct api *a, struct err *e); /* blocks: before the loop runs */
void e2b_close(struct api *a);              /* nothing new begins */
void e2b_done(struct api *a);

/* Finds the route of a request that names a sandbox; `path` is as it came. False: it names none, or
 * is for our own interface. */
bool e2b_route_inside(struct call *c, struct str path);
/* Of any other, that is for E2B's control plane. */
bool e2b_route(struct call *c);

#endif
