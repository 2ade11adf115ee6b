/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed memfds: immutable memory that can be passed to untrusted processes. */
#ifndef LIB_PROC_SEALED_H
#define LIB_PROC_SEALED_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

/* Copies the whole file `from` into an executable memfd; -ERR_TOO_BIG beyond max bytes. /proc shows
 * the name. */
int sealed_copy(int from, const char *name, size_t max, int *ret, struct err *e);

/* Copies bytes into a memfd that is not meant to be executed. */
int sealed_text(struct str text, const char *name, int *ret, struct err *e);

#endif
