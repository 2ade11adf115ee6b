/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a daemon in the background: sandboxerd.log in the state directory. */
#ifndef DAEMON_LOG_FILE_H
#define DAEMON_LOG_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { LOG_FILE_BYTES_MAX = 8 << 20 };

/* "STATE/sandboxerd.log", or with ".1" for the older part. False: it is too long. */
bool log_file_path(const char *state, bool older, char *out, size_t cap);

/* Makes the file, of mode 0600, the process's stderr. */
int log_file_open(const char *state, struct err *e);

/* Whether stderr is that file. */
bool log_file_is_stderr(const char *state);

/* Moves the content of a file that has grown beyond `most` bytes to the older part, which it
 * replaces. Every process that writes to it opened it for appending; a line that is written
 * meanwhile may be lost. */
int log_file_bound(const char *state, size_t most, struct err *e);

#endif
