/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/sql.h"

#include <sqlite3.h>
#include <stdio.h>

#include "harness/tap.h"
#include "domain/store/sqlite/schema.h"

static sqlite3 *fresh(void)
{
    sqlite3 *h;

    CHECK_INT(sqlite3_open(":memory:", &h), SQLITE_OK);
    for (size_t i = 0; i < store_schema.n; i++)
        CHECK_INT(sqlite3_exec(h, store_schema.migrations[i].sql, NULL, NULL, NULL), SQLITE_OK);
    return h;
}

/* These are few, and always wanted all. */
static bool may_scan(int id)
{
    return id == SQL_TOKENS || id == SQL_HOSTS || id == SQL_PEERS || id == SQL_GRANTS ||
           id == SQL_APPROVALS_OPEN || id == SQL_APPROVALS_WAITING || id == SQL_SNAPSHOTS ||
           id == SQL_IMAGES || id == SQL_LAYERS;
}

static void check_step(int id, const char *step)
{
    if (strncmp(step, "SCAN", 4) == 0 && !may_scan(id))
        FAIL("statement %d walks a whole table: %s (%s)", id, step, sql_texts[id]);
    if (strstr(step, "TEMP B-TREE"))
        FAIL("statement %d sorts: %s (%s)", id, step, sql_texts[id]);
}

TEST(every_statement_finds_its_rows_by_an_index)
{
    sqlite3 *h = fresh();
    int steps = 0;

    for (int id = SQL_ROLLBACK_TO + 1; id < SQL_COUNT_; id++) {
        char text[4096];
        sqlite3_stmt *st;

        CHECK((size_t)snprintf(text, sizeof text, "EXPLAIN QUERY PLAN %s", sql_texts[id]) <
              sizeof text);
        if (sqlite3_prepare_v2(h, text, -1, &st, NULL) != SQLITE_OK)
            FAIL("%s: %s", sqlite3_errmsg(h), text);
        while (sqlite3_step(st) == SQLITE_ROW) {
            check_step(id, (const char *)sqlite3_column_text(st, 3));
            steps++;
        }
        sqlite3_finalize(st);
    }
    CHECK(steps > SQL_COUNT_ - SQL_SANDBOX);
    sqlite3_close(h);
}

TEST(versions_ascend)
{
    int last = 0;

    for (size_t i = 0; i < store_schema.n; i++) {
        CHECK(store_schema.migrations[i].number > last);
        last = store_schema.migrations[i].number;
    }
    CHECK_INT(schema_version(&store_schema), last);
}
