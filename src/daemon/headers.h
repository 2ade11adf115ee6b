/* SPDX-License-Identifier: Apache-2.0 */
/* hub.headers_file: a secret that the monitor reads for the control plane, which may not. */
#ifndef DAEMON_HEADERS_H
#define DAEMON_HEADERS_H

#include "base/err.h"

enum { HEADERS_FILE_MAX = 16 << 10 };

/* A sealed memfd with the content of the file, at offset 0. The file must be a regular file of this
 * user, readable by no other user; links are refused. */
int headers_open(const char *path, int *ret, struct err *e);

#endif
