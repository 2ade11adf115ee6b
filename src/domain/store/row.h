/* Records and rows: which member is which column, once for copying, writing and reading. The order
 * is that of the column lists in sql.c. */
#ifndef STORE_ROW_H
#define STORE_ROW_H

#include <sqlite3.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/record.h"
#include "model/request.h"

enum row_kind {
    ROW_TEXT,   /* char[] */
    ROW_BYTES,  /* unsigned char[], always full */
    ROW_STR,    /* struct str */
    ROW_SEALED, /* struct str, sealed */
    ROW_ENV,    /* struct str: JSON, of which "env" is sealed; `count` is its depth */
    ROW_WHOLE,  /* the same sealed as a whole; versions before sealed only its "env" */
    ROW_MAP,    /* struct json_map, as a JSON object */
    ROW_I64,    /* int64_t, uint64_t */
    ROW_INT,    /* int, any value */
    ROW_ENUM,   /* an enum: 0 to below `count` */
    ROW_U32,
    ROW_BOOL,
    ROW_SEQ, /* int64_t that SQLite gives: not written */
};

struct keyring;

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

/* A copy with everything it points to; NULL where the arena is full. */
void *row_copy(const struct row_shape *s, const void *record, struct arena *a);

/* `keys` seals and opens what is sealed; NULL: it stays as it is.
 *
 * Binds the record to the parameters from ?1 on; it must stay until the statement is finished. */
int row_bind(const struct row_shape *s, const void *record, sqlite3_stmt *st, struct keyring *keys,
             struct err *e);

/* Fills a zeroed record from the current row. What does not fit is a damaged row: -ERR_INVALID. */
int row_read(const struct row_shape *s, sqlite3_stmt *st, struct arena *a, void *record,
             struct keyring *keys, struct err *e);

/* What its request says that it was made from, beside its profile: NULL where the arena is full, or
 * it was made from none. */
enum row_origin { ROW_SNAPSHOT, ROW_IMAGE, ROW_ORIGINS };
#define ROW_ORIGIN_BYTES ((size_t)8 * REQUEST_JSON_MAX) /* that an arena for it has */
const char *row_made_from(const struct sandbox_record *b, enum row_origin what, struct arena *a);

#endif
