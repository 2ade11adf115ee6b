/* SPDX-License-Identifier: Apache-2.0 */
/* Ids: a type prefix and 20 characters of lower-case base32 (100 random bits): "sbx_4k7…". */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum { ID_RANDOM_CHARS = 20, ID_MAX = 32 /* with prefix and NUL */ };

/* prefix includes the underscore: "sbx_". */
int id_make(const char *prefix, char out[static ID_MAX], struct err *e);
bool id_valid(const char *prefix, struct str s);

#endif
