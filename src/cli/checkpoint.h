/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about checkpoints that several verbs make. */
#ifndef CLI_CHECKPOINT_H
#define CLI_CHECKPOINT_H

#include "cli/api_call.h"

/* Starts a request for a checkpoint of the sandbox; the owner runs it. */
void checkpoint_init(struct api_call *c, const struct verb *v, const struct common *common,
                     const char *sandbox, const char *cause);
/* Takes one before the sandbox is used; a failure is reported, and that is all. */
void checkpoint_take_first(const struct verb *v, const struct common *common, const char *sandbox,
                           const char *cause);

#endif
