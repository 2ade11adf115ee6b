/* SPDX-License-Identifier: Apache-2.0 */
/* A page of docs/ has one row for each field of a table, and no others:
 *
 *     | `ttl.max` | duration | `24h` | The most that … |
 */
#ifndef TESTS_DOC_ROWS_H
#define TESTS_DOC_ROWS_H

#include "lib/json/bind.h"

/* Prints the rows as they should be and fails the test. page is relative to the source
 * directory. */
void check_doc_rows(const char *page, const struct json_field *fields, size_t n);

/* A table whose rows are on another page: only lists of it have a row. NULL: none. */
extern const struct json_field *doc_rows_elsewhere;

#endif
