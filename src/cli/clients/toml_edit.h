/* SPDX-License-Identifier: Apache-2.0 */
/* Changes one table of a TOML document as text. Everything else keeps its bytes, also keys of the
 * table that are not given. */
#ifndef CLI_CLIENTS_TOML_EDIT_H
#define CLI_CLIENTS_TOML_EDIT_H

#include "base/buf.h"
#include "base/err.h"

enum { TOML_PAIRS_MAX = 4 };

struct toml_pair {
    const char *key;  /* bare */
    struct str value; /* as TOML */
};

/* [parent.name], of bare names. */
struct toml_table {
    const char *parent, *name;
};

/* Appends the text with these pairs (at most TOML_PAIRS_MAX) in the table to `out`; a table that is
 * missing follows at the end. 1, or 0 if the table has these values already. -ERR_INVALID, with the
 * line, for text that is not TOML, and where the table is written in another form; then `out` is as
 * it was. A NUL follows the text. */
int toml_edit_set(struct str text, struct toml_table table, const struct toml_pair *pairs, size_t n,
                  struct buf *out, struct err *e);

/* The same without the table and the tables in it. 0: it is not there. */
int toml_edit_remove(struct str text, struct toml_table table, struct buf *out, struct err *e);

/* Whether the table has this key: 1 or 0. */
int toml_edit_has(struct str text, struct toml_table table, const char *key, struct err *e);

#endif
