/* A secret in a file, with which a later process is taken for the same client. */
#ifndef CLI_SESSION_KEY_H
#define CLI_SESSION_KEY_H

#include "base/err.h"
#include "base/id.h"

/* What the file holds; where there is none it is made, readable by its owner alone. Messages begin
 * with the path. */
int session_key_load(const char *path, char ret[static ID_MAX], struct err *e);

#endif
