/* A program of ours in memory. */
#ifndef RUNTIME_PROGRAM_H
#define RUNTIME_PROGRAM_H

#include "base/err.h"

/* A sealed memfd with the program of that name: it can be executed wherever nothing of ours is
 * mounted, and written by nobody. */
int program_seal(const char *name, int *ret, struct err *e);

#endif
