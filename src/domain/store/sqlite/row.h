/* SPDX-License-Identifier: Apache-2.0 */
/* Maps members of records to columns of rows, for copying, writing and reading. The order is that
 * of the column lists in sql.c. */
#ifndef DOMAIN_STORE_SQLITE_ROW_H
#define DOMAIN_STORE_SQLITE_ROW_H

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "domain/model/record.h"
#include "domain/model/request.h"
#include "domain/store/sqlite/db.h"

enum row_kind {
    ROW_TEXT,   /* char[] */
    ROW_BYTES,  /* unsigned char[], always full */
    ROW_STR,    /* struct str; so are the next three */
    ROW_SEALED, /* struct str, sealed */
    ROW_ENV,    /* struct str: JSON whose member "env", at the depth `count`, is sealed */
    ROW_WHOLE,  /* struct str, sealed; older versions sealed only its "env" */
    ROW_MAP,    /* struct json_map, as a JSON object */
    ROW_I64,    /* int64_t, uint64_t */
    ROW_INT,    /* int, any value */
    ROW_ENUM,   /* an enum: 0 to below `count` */
    ROW_U32,
    ROW_BOOL,
    ROW_SEQ, /* int64_t; 0: SQLite assigns it */
};

struct row_column {
    enum row_kind kind;
    uint32_t offset, size;
    uint32_t count;
    const char *label; /* the member's name */
};

struct row_shape {
    const char *name;
    const struct row_column *columns; /* the first one is the record's id */
    int n;
    size_t size; /* of the record */
};

extern const struct row_shape sandbox_shape, event_shape, process_shape, token_shape, host_shape,
    idempotency_shape, egress_shape, peer_shape, approval_shape, grant_shape, snapshot_shape,
    image_shape, layer_shape, egress_head_shape;

/* A deep copy; NULL if the arena is full. */
void *row_copy(const struct row_shape *s, const void *record, struct arena *a);

/* Runs a statement with the record's members as parameters from ?1 on, and the values `more` (NULL:
 * none) behind them. Secrets are sealed with the connection's keys. */
int row_write(struct db *d, enum sql id, const struct row_shape *s, const void *record,
              const struct db_value *more, struct err *e);

/* Fills a zeroed record from the current row. -ERR_INVALID if a value does not fit: the row is
 * damaged. */
int row_read(struct db *d, const struct row_shape *s, sqlite3_stmt *st, struct arena *a,
             void *record, struct err *e);

/* The snapshot or image that a sandbox's request names; NULL if it names none, or the arena is
 * full. */
enum row_origin { ROW_SNAPSHOT, ROW_IMAGE, ROW_ORIGINS };
#define ROW_ORIGIN_BYTES ((size_t)8 * REQUEST_JSON_MAX) /* size of an arena for it */
const char *row_made_from(const struct sandbox_record *b, enum row_origin what, struct arena *a);

#endif
