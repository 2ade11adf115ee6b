/* Where things are when nobody says otherwise. Variables that are not absolute paths do not count.
 * Each writes a path to out, or fails and says which variable helps. */
#ifndef CONFIG_PATHS_H
#define CONFIG_PATHS_H

#include <stddef.h>

#include "base/err.h"

/* /var/lib/sandboxer for root, else $XDG_DATA_HOME/sandboxer or ~/.local/share/sandboxer. */
int paths_state(char *out, size_t cap, struct err *e);

/* /run/sandboxer/sandboxer.sock for root, else $XDG_RUNTIME_DIR/sandboxer.sock, and without that
 * sandboxer.sock in the state directory. */
int paths_socket(const char *state, char *out, size_t cap, struct err *e);

/* $XDG_CONFIG_HOME/sandboxer/sandboxer.yaml or ~/.config/…. -ERR_NOT_FOUND for root, whose file is
 * the system's, and where neither variable is set. */
int paths_user_config(char *out, size_t cap, struct err *e);

#endif
