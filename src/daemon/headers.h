/* hub.headers_file: a secret that the warden reads for the control plane, which may not. */
#ifndef DAEMON_HEADERS_H
#define DAEMON_HEADERS_H

#include "base/err.h"

enum { HEADERS_FILE_MAX = 16 << 10 };

/* A file in memory with what it says, sealed and at its start. The file must be a regular one, no
 * link, ours, and closed to everybody else. */
int headers_open(const char *path, int *ret, struct err *e);

#endif
