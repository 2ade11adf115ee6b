/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a session with a workspace. */
#ifndef EDGE_TOOLS_WORKSPACE_END_H
#define EDGE_TOOLS_WORKSPACE_END_H

#include "control/control.h"

/* Destroys the sandbox if the host has all of its changes, else stops it. A sandbox that is paused
 * or ends already stays as it is. */
void workspace_end_begin(struct sandbox *s, const struct actor *who);

#endif
