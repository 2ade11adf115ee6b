/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/row.h"

#include "fixture.h"
#include "domain/store/sqlite/internal.h"

static const struct json_pair labels[] = { { "team", "red" }, { "é", "\"\\\n" }, { "e", "" } };

static struct sandbox_record full(void)
{
    struct sandbox_record b = {
        .state = SANDBOX_EXPIRED,
        .profile_version = INT64_MAX,
        .created_ns = 1,
        .updated_ns = 2,
        .ready_ns = 3,
        .finished_ns = 4,
        .ttl_ns = 5,
        .ttl_max_ns = 6,
        .idle_ns = 7,
        .deadline_ns = INT64_MIN,
        .request = STR("{\"a\":\"\xc3\xa9\"}"),
        .detail = STR(""),
        .labels = { labels, 3 },
    };

    memset(b.id, 'i', sizeof b.id - 1); /* each as long as it may be */
    memset(b.owner, 'o', sizeof b.owner - 1);
    memset(b.profile, 'p', sizeof b.profile - 1);
    memset(b.extension, 'x', sizeof b.extension - 1);
    memset(b.host, 'h', sizeof b.host - 1);
    memset(b.boot, 'b', sizeof b.boot - 1);
    memset(b.reason, 'r', sizeof b.reason - 1);
    memset(b.step, 's', sizeof b.step - 1);
    return b;
}

static void check_same(const struct sandbox_record *a, const struct sandbox_record *b)
{
    struct sandbox_record x = *a, y = *b;

    CHECK(str_eq(x.request, y.request) && str_eq(x.detail, y.detail));
    CHECK_INT(x.labels.n, y.labels.n);
    for (size_t i = 0; i < x.labels.n; i++) {
        CHECK_STR(str_from(x.labels.p[i].key), y.labels.p[i].key);
        CHECK_STR(str_from(x.labels.p[i].value), y.labels.p[i].value);
    }
    x.request = y.request = x.detail = y.detail = STR("");
    x.labels = y.labels = (struct json_map){ 0 };
    CHECK(memcmp(&x, &y, sizeof x) == 0);
}

TEST(a_sandbox_comes_back_as_it_was)
{
    static struct sandbox_record b;
    struct store_query q = { .kind = STORE_LIVE };
    struct store_txn t;

    b = full();
    fix_open();
    for (int turn = 0; turn < 2; turn++) { /* inserted, then moved */
        store_txn_begin(&t, fix.store);
        b.state = turn ? SANDBOX_FAILED : SANDBOX_EXPIRED;
        store_put_sandbox(&t, &b);
        commit(&t);
        ask(&q);
        CHECK_INT(q.n, 1);
        check_same(&q.sandboxes[0], &b);
        arena_done(&q.arena);
    }
    fix_close();
}

TEST(an_event_comes_back_as_it_was)
{
    struct event_record v = { .time_ns = 5,
                              .type = "t",
                              .sandbox = "s",
                              .owner = "o",
                              .from = -1,
                              .to = 3,
                              .actor = { .kind = ACTOR_ATM, .id = "a" },
                              .reason = "r",
                              .detail = STR("{}") };
    struct store_query q = { .kind = STORE_EVENTS };
    struct store_txn t;

    fix_open();
    store_txn_begin(&t, fix.store);
    store_add_event(&t, &v);
    commit(&t);
    ask(&q);
    CHECK_INT(q.events[0].seq, 1);
    CHECK_INT(q.events[0].time_ns, 5);
    CHECK_STR(str_from(q.events[0].type), "t");
    CHECK_STR(str_from(q.events[0].sandbox), "s");
    CHECK_STR(str_from(q.events[0].owner), "o");
    CHECK_INT(q.events[0].from, -1);
    CHECK_INT(q.events[0].to, 3);
    CHECK_INT(q.events[0].actor.kind, ACTOR_ATM);
    CHECK_STR(str_from(q.events[0].actor.id), "a");
    CHECK_STR(str_from(q.events[0].reason), "r");
    CHECK_STR(q.events[0].detail, "{}");
    arena_done(&q.arena);
    fix_close();
}

/* A row written by another program must not become an invalid record. */
TEST(an_unreadable_row_is_an_error)
{
    static const char *const bad[] = {
        "state = 9",
        "state = -1",
        "labels = '[]'",
        "labels = '{\"a\":1}'",
        "labels = '{'",
        "labels = '{\"a\":{}}'",
        "labels = ''",
        "owner = printf('%.*c', 48, 'x')",
        "reason = printf('%.*c', 256, 'x')",
        "step = CAST(x'610062' AS TEXT)",
    };
    struct sandbox_record b = sandbox(1);
    struct store_txn t;

    fix_open();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct store_query q = { .kind = STORE_SANDBOX, .text = str_from(b.id) };
        char sql[200];

        store_txn_begin(&t, fix.store);
        store_put_sandbox(&t, &b);
        commit(&t);
        CHECK_OK(store_ask_now(fix.store, &q, &e), e);
        CHECK_INT(q.n, 1);
        arena_done(&q.arena);
        snprintf(sql, sizeof sql, "UPDATE sandboxes SET %s, host = 'changed'", bad[i]);
        CHECK_OK(db_exec(&fix.store->writer.db, sql, &e), e);
        if (store_ask_now(fix.store, &q, &e) != -ERR_INVALID)
            FAIL("taken: %s", bad[i]);
        CHECK(strstr(e.msg, "unreadable"));
        arena_done(&q.arena);
        CHECK_OK(db_exec(&fix.store->writer.db, "DELETE FROM tags; DELETE FROM sandboxes", &e), e);
    }
    fix_close();
}

TEST(an_answer_has_a_limit)
{
    struct store_query q = { .kind = STORE_LIVE, .arena = ARENA_INIT(100000) };

    fix_open();
    put_sandboxes(0, 10, "one", SANDBOX_READY);
    CHECK_OK(store_ask_now(fix.store, &q, &e), e);
    CHECK_INT(q.n, 10);
    arena_done(&q.arena);
    put_sandboxes(10, 1000, "one", SANDBOX_READY);
    CHECK_INT(store_ask_now(fix.store, &q, &e), -ERR_TOO_BIG);
    arena_done(&q.arena);
    q.limit = 10;
    CHECK_OK(store_ask_now(fix.store, &q, &e), e);
    arena_done(&q.arena);
    fix_close();
}
