/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a sealed copy of one of our programs in memory. */
#ifndef ENGINE_RUNTIME_PROGRAM_H
#define ENGINE_RUNTIME_PROGRAM_H

#include "base/err.h"

/* Makes a sealed memfd with the program of that name: it can be executed in any root file system,
 * and cannot be modified. */
int program_seal(const char *name, int *ret, struct err *e);

#endif
