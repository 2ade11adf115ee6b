/* The tables, as a list of numbered changes. The number of the last one is the schema's version and
 * stands in the file's header (user_version); which program's file it is stands there too
 * (application_id). A change that was released is never edited: a new one is appended. */
#ifndef STORE_SCHEMA_H
#define STORE_SCHEMA_H

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
