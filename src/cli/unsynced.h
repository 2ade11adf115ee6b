/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of a workspace that a destroy or a recreate brought back, or could not. */
#ifndef CLI_UNSYNCED_H
#define CLI_UNSYNCED_H

#include "cli/answer.h"

/* After a refusal: lists the changes that are still inside, and the ways out. */
void unsynced_explain(const struct api_call *c, const char *id);
/* After a success: lists the changes that were made here, if any. An exit status. */
int unsynced_list(const struct api_call *c, const struct json *synced);

#endif
