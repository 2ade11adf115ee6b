/* SPDX-License-Identifier: Apache-2.0 */
/* Translates errnos from inside a sandbox to error codes of the request. */
#ifndef BACKENDS_FAULT_H
#define BACKENDS_FAULT_H

#include "base/err.h"

/* A file or program inside that is missing, inaccessible or full is the caller's responsibility;
 * the same errno from our own files and sockets is not. So use this only for errors from inside.
 * ERR_SYS for all others. */
enum err_code backend_fault_code(int sys);

#endif
