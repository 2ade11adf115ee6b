/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <stdio.h>

struct fixture fix;
struct err e;

void fix_dir(void)
{
    if (!fix.scratch.path[0])
        fix.scratch = scratch_make();
}

void fix_open(void)
{
    fix_dir();
    CHECK_OK(loop_init(&fix.loop, &e), e);
    CHECK_OK(thread_pool_init(&fix.pool, &fix.loop, 3, 1000, &e), e);
    CHECK_OK(store_open(fix.scratch.dir, &fix.loop, &fix.pool, &fix.store, &e), e);
    CHECK_OK(store_open_ledger(fix.store, &e), e);
}

void fix_close(void)
{
    store_close(fix.store);
    fix.store = NULL;
    thread_pool_done(&fix.pool);
    loop_done(&fix.loop);
}

struct sandbox_record sandbox(int n)
{
    struct sandbox_record b = {
        .owner = "tok_owner",
        .state = SANDBOX_READY,
        .profile = "python",
        .profile_version = 3,
        .extension = "local",
        .host = "here",
        .created_ns = n * INT64_C(1000000000),
        .updated_ns = n * INT64_C(1000000000) + 5,
        .ready_ns = 7,
        .finished_ns = 0,
        .ttl_ns = 100,
        .ttl_max_ns = 200,
        .idle_ns = 50,
        .deadline_ns = 1000 + n,
        .boot = "boot",
        .reason = "asked",
        .request = STR("{\"profile\":\"python\"}"),
        .detail = STR("{\"notes\":[]}"),
    };

    snprintf(b.id, sizeof b.id, "sbx_%020d", n);
    return b;
}

struct event_record event(int n, const char *type)
{
    struct event_record v = {
        .time_ns = n * INT64_C(1000000000),
        .owner = "tok_owner",
        .from = SANDBOX_REQUESTED,
        .to = SANDBOX_READY,
        .actor = { .kind = ACTOR_AGT, .id = "tok_actor" },
        .reason = "because",
        .detail = STR("{\"n\":1}"),
    };

    snprintf(v.type, sizeof v.type, "%s", type);
    snprintf(v.sandbox, sizeof v.sandbox, "sbx_%020d", n);
    return v;
}

static int committed;
static int result;

static void on_done(struct store_txn *t, int r, const struct err *err)
{
    committed++;
    result = r;
    e = *err;
}

void turn(void)
{
    CHECK_OK(loop_run_once(&fix.loop, -1, &e), e);
}

int try_commit(struct store_txn *t)
{
    int before = committed;

    store_commit(t, on_done);
    while (committed == before)
        turn();
    return result;
}

void commit(struct store_txn *t)
{
    CHECK_OK(try_commit(t), e);
}

void put_sandboxes(int from, int to, const char *owner, enum sandbox_state state)
{
    struct store_txn t;

    store_txn_begin(&t, fix.store);
    for (int i = from; i < to; i++) {
        struct sandbox_record b = sandbox(i);

        CHECK(str_copy(str_from(owner), b.owner, sizeof b.owner));
        b.state = state;
        store_put_sandbox(&t, &b);
    }
    commit(&t);
}

static void on_answer(struct store_query *q, int r, const struct err *err)
{
    committed++;
    result = r;
    e = *err;
}

void ask(struct store_query *q)
{
    int before = committed;

    CHECK_OK(store_ask(fix.store, q, on_answer, &e), e);
    while (committed == before)
        turn();
    CHECK_OK(result, e);
}

size_t count_of(struct store_query q)
{
    ask(&q);
    arena_done(&q.arena);
    return q.n;
}

size_t walk_ledger(struct ledger_walk *w)
{
    do {
        struct store_query q = { .kind = STORE_LEDGER, .walk = w, .limit = 7 };

        ask(&q);
        arena_done(&q.arena);
    } while (!w->finished);
    return w->n_findings;
}

void check_ledger(void)
{
    struct ledger_walk w = { 0 };
    char text[192] = "";

    if (walk_ledger(&w))
        ledger_explain(&w.findings[0], text, sizeof text);
    CHECK_STR(str_from(text), "");
}
