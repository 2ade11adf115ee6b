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

/* Reads an id in any of its forms: "sbx_4k7…", "sbx4k7…" (for clients that take letters and digits
 * only) and "sbx-4k7…" (for host names). `ret` is the first form, also if it overlaps s; untouched
 * if s is no id. */
bool id_read(const char *prefix, struct str s, char ret[static ID_MAX]);
/* The id without the underscore: "sbx4k7…". */
void id_show_plain(const char *id, char ret[static ID_MAX]);
/* Cuts "-SUFFIX" behind a complete id in any form; other texts are returned unchanged. */
struct str id_cut_suffix(const char *prefix, struct str s);

#endif
