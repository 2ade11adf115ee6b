/* SPDX-License-Identifier: Apache-2.0 */
/* Default paths. Ignores variables that are not absolute paths. Each function writes a path to out,
 * or fails with a message that names the variable to set. */
#ifndef DOMAIN_CONFIG_PATHS_H
#define DOMAIN_CONFIG_PATHS_H

#include <stddef.h>

#include "base/err.h"

/* /var/lib/sandboxer for root, else $XDG_DATA_HOME/sandboxer or ~/.local/share/sandboxer. */
int paths_state(char *out, size_t cap, struct err *e);

/* /run/sandboxer/sandboxer.sock for root, else $XDG_RUNTIME_DIR/sandboxer.sock, and without that
 * sandboxer.sock in the state directory. */
int paths_socket(const char *state, char *out, size_t cap, struct err *e);

/* $XDG_CONFIG_HOME/sandboxer/sandboxer.yaml or ~/.config/…. -ERR_NOT_FOUND for root, which uses the
 * system's file, and if neither variable is set. */
int paths_user_config(char *out, size_t cap, struct err *e);

#endif
