/* Memory that nobody can change any more, as a descriptor: for what is handed to others. */
#ifndef PROC_SEALED_H
#define PROC_SEALED_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

/* What `from` has from its beginning to its end; -ERR_TOO_BIG past max. It can be executed, and the
 * name is what /proc shows. */
int sealed_copy(int from, const char *name, size_t max, int *ret, struct err *e);

/* The same of bytes; not executable. */
int sealed_text(struct str text, const char *name, int *ret, struct err *e);

#endif
