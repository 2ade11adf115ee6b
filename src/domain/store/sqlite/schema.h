/* SPDX-License-Identifier: Apache-2.0 */
/* The schema, as a list of numbered migrations. The number of the last one is the schema's version,
 * which is stored in the file's header (user_version), beside the application_id. A released
 * migration is never edited: append a new one. */
#ifndef DOMAIN_STORE_SQLITE_SCHEMA_H
#define DOMAIN_STORE_SQLITE_SCHEMA_H

#include <stddef.h>

enum { SCHEMA_APPLICATION = 0x53424f58 }; /* "SBOX" */

struct migration {
    int number;
    const char *sql;
};

struct schema {
    const struct migration *migrations;
    size_t n;
};

extern const struct schema store_schema;

static inline int schema_version(const struct schema *s)
{
    return s->migrations[s->n - 1].number;
}

#endif
