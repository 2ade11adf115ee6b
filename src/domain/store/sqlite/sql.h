/* SPDX-License-Identifier: Apache-2.0 */
/* All statements. Each is prepared once per connection; a test checks that each finds its rows by
 * an index. */
#ifndef DOMAIN_STORE_SQLITE_SQL_H
#define DOMAIN_STORE_SQLITE_SQL_H

enum sql {
#define SQL(name, text) name,
#include "domain/store/sqlite/sql_table.h"
#undef SQL
    SQL_COUNT_,
};

extern const char *const sql_texts[SQL_COUNT_];

#endif
