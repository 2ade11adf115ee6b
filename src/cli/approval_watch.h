/* SPDX-License-Identifier: Apache-2.0 */
/* `approvals watch`: held calls as they come. On a terminal one after the other is shown and a key
 * decides it; elsewhere each is a line, and nothing can be decided.
 *
 * The daemon streams changes (GET /v1/approvals); each one only has the list read again, so that a
 * change that was missed while there was no connection costs nothing. */
#ifndef CLI_APPROVAL_WATCH_H
#define CLI_APPROVAL_WATCH_H

#include "cli/verb.h"

/* Watches until a key, a signal or an error ends it: the exit status. `command` is run for each
 * call (cli/approval_hook.h); NULL: none. */
int approval_watch(const struct verb *v, const struct common *common, const char *command);

#endif
