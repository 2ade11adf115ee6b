/* SPDX-License-Identifier: Apache-2.0 */
/* A secret in a file that identifies later processes as the same client. */
#ifndef CLI_RUN_SESSION_KEY_H
#define CLI_RUN_SESSION_KEY_H

#include "base/err.h"
#include "base/id.h"

/* Reads the key in the file; a missing file is created, readable by its owner alone. Messages begin
 * with the path. */
int session_key_load(const char *path, char ret[static ID_MAX], struct err *e);

#endif
