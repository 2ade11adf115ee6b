/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/store.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "fixture.h"
#include "domain/store/sqlite/internal.h"

static void put_labelled(int n, const char *owner, struct json_map labels)
{
    struct sandbox_record b = sandbox(n);
    struct store_txn t;

    CHECK(str_copy(str_from(owner), b.owner, sizeof b.owner));
    b.labels = labels;
    store_txn_begin(&t, fix.store);
    store_put_sandbox(&t, &b);
    commit(&t);
}

TEST(what_was_committed_is_there_after_opening_again)
{
    struct store_query q = { .kind = STORE_SANDBOX, .text = STR("sbx_00000000000000000001") };

    fix_open();
    put_sandboxes(1, 2, "tok_owner", SANDBOX_READY);
    fix_close();
    fix_open();
    ask(&q);
    CHECK_INT(q.n, 1);
    CHECK_STR(str_from(q.sandboxes[0].id), "sbx_00000000000000000001");
    arena_done(&q.arena);
    CHECK_INT(mode_of(fix.scratch.dir, "sandboxer.db"), 0600);
    CHECK_INT(mode_of(fix.scratch.dir, "sandboxer.db-wal"), 0600);
    fix_close();
    CHECK(!exists(fix.scratch.dir, "sandboxer.db-wal")); /* an orderly end leaves one file */
    CHECK(!exists(fix.scratch.dir, "sandboxer.db-shm"));
}

TEST(a_sandbox_is_replaced_with_everything_that_finds_it)
{
    static const struct json_pair old[] = { { "a", "1" }, { "b", "2" } }, new[] = { { "a", "3" } };
    struct sandbox_record b = sandbox(1);
    struct store_query q = { .kind = STORE_SANDBOX, .text = str_from(b.id) };
    struct store_txn t;

    fix_open();
    put_labelled(1, "one", (struct json_map){ old, 2 });
    put_labelled(1, "two", (struct json_map){ new, 1 });
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES, .labels = { old, 1 } }), 0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES, .labels = { new, 1 } }), 1);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES, .owner = STR("one") }), 0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES, .owner = STR("two") }), 1);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_LIVE }), 1);
    b.state = SANDBOX_DESTROYED;
    b.labels = (struct json_map){ new, 1 };
    store_txn_begin(&t, fix.store);
    store_put_sandbox(&t, &b);
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_LIVE }), 0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_DUE }), 0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES, .labels = { new, 1 } }), 1);
    ask(&q);
    CHECK_INT(q.sandboxes[0].state, SANDBOX_DESTROYED);
    CHECK_INT(q.sandboxes[0].labels.n, 1);
    arena_done(&q.arena);
    fix_close();
}

TEST(a_move_changes_what_it_moves)
{
    struct sandbox_record b = sandbox(1);
    struct store_query q = { .kind = STORE_SANDBOX, .text = str_from(b.id) };
    struct store_txn t;

    fix_open();
    put_sandboxes(1, 2, b.owner, SANDBOX_REQUESTED);
    b.state = SANDBOX_FAILED;
    b.updated_ns = 77;
    b.detail = STR("{\"x\":1}");
    CHECK(str_copy(STR("network"), b.step, sizeof b.step));
    store_txn_begin(&t, fix.store);
    store_put_sandbox(&t, &b);
    commit(&t);
    ask(&q);
    CHECK_INT(q.sandboxes[0].state, SANDBOX_FAILED);
    CHECK_INT(q.sandboxes[0].updated_ns, 77);
    CHECK_STR(q.sandboxes[0].detail, "{\"x\":1}");
    CHECK_STR(str_from(q.sandboxes[0].step), "network");
    arena_done(&q.arena);
    fix_close();
}

/* Pages of 7 through all that q finds, in order and each once. */
static int walk_one_way(struct store_query q)
{
    int64_t last = q.ascending ? -1 : INT64_MAX;
    int total = 0;

    q.limit = 7;
    for (;;) {
        struct store_query page = q;

        ask(&page);
        for (size_t i = 0; i < page.n; i++) {
            CHECK(q.ascending ? page.sandboxes[i].created_ns > last
                              : page.sandboxes[i].created_ns < last);
            last = page.sandboxes[i].created_ns;
        }
        total += (int)page.n;
        if (page.n > 0) {
            q.after.created_ns = last;
            memcpy(q.after.id, page.sandboxes[page.n - 1].id, ID_MAX);
        }
        arena_done(&page.arena);
        if (page.n < 7)
            return total;
    }
}

static int walk(struct store_query q)
{
    int down = walk_one_way(q);

    q.ascending = true;
    CHECK_INT(walk_one_way(q), down);
    return down;
}

#define BIT(s) (1u << SANDBOX_##s)

TEST(pages_by_every_filter)
{
    static const struct json_pair team[] = { { "team", "red" }, { "env", "test" } };

    fix_open();
    put_sandboxes(0, 40, "one", SANDBOX_DESTROYED);
    put_sandboxes(40, 50, "one", SANDBOX_READY);
    put_sandboxes(50, 55, "one", SANDBOX_FAILED);
    put_sandboxes(55, 75, "two", SANDBOX_DESTROYED);
    put_sandboxes(75, 80, "two", SANDBOX_READY);
    for (int i = 100; i < 120; i++)
        put_labelled(i, i % 2 ? "one" : "two", (struct json_map){ team, i % 4 ? 1 : 2 });

    CHECK_INT(walk((struct store_query){ .kind = STORE_SANDBOXES }), 100);
    CHECK_INT(walk((struct store_query){ .kind = STORE_SANDBOXES, .owner = STR("one") }), 65);
    CHECK_INT(walk((struct store_query){ .kind = STORE_SANDBOXES, .owner = STR("nobody") }), 0);
    CHECK_INT(walk((struct store_query){ .kind = STORE_SANDBOXES, .states = BIT(READY) }), 35);
    CHECK_INT(walk((struct store_query){ .kind = STORE_SANDBOXES, .states = BIT(DESTROYED) }), 60);
    CHECK_INT(walk((struct store_query){ .kind = STORE_SANDBOXES,
                                         .states = BIT(DESTROYED) | BIT(FAILED),
                                         .owner = STR("one") }),
              45);
    CHECK_INT(walk((struct store_query){ .kind = STORE_SANDBOXES, .profile = STR("python") }), 100);
    CHECK_INT(walk((struct store_query){ .kind = STORE_SANDBOXES, .profile = STR("perl") }), 0);
    CHECK_INT(walk((struct store_query){ .kind = STORE_SANDBOXES, .labels = { team, 1 } }), 20);
    CHECK_INT(walk((struct store_query){ .kind = STORE_SANDBOXES, .labels = { team, 2 } }), 5);
    CHECK_INT(walk((struct store_query){
                  .kind = STORE_SANDBOXES, .labels = { team, 1 }, .owner = STR("one") }),
              10);
    CHECK_INT(walk((struct store_query){ .kind = STORE_SANDBOXES,
                                         .labels = { team, 2 },
                                         .owner = STR("two"),
                                         .profile = STR("python"),
                                         .states = BIT(READY) }),
              5);
    CHECK_INT(walk((struct store_query){
                  .kind = STORE_SANDBOXES, .labels = { team, 2 }, .owner = STR("one") }),
              0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_LIVE }), 40);
    fix_close();
}

TEST(what_was_made_from_a_snapshot)
{
    static const struct json_pair team[] = { { "team", "red" } };
    struct store_query q = { .kind = STORE_SANDBOXES, .profile = STR("snap_one") };
    struct sandbox_record b;
    struct store_txn t;

    fix_open();
    put_sandboxes(1, 9, "one", SANDBOX_READY);
    store_txn_begin(&t, fix.store);
    for (int i = 20; i < 30; i++) {
        b = sandbox(i);
        b.request = i % 2 ? STR("{\"snapshot\":\"snap_one\"}") : STR("{\"snapshot\":7}");
        if (i > 25)
            b.labels = (struct json_map){ team, 1 };
        store_put_sandbox(&t, &b);
    }
    commit(&t);
    CHECK_INT(walk(q), 5);
    q.labels = (struct json_map){ team, 1 };
    CHECK_INT(walk(q), 2);
    q.states = BIT(DESTROYED);
    CHECK_INT(walk(q), 0);
    store_txn_begin(&t, fix.store);
    b.state = SANDBOX_DESTROYED;
    store_put_sandbox(&t, &b);
    commit(&t);
    CHECK_INT(walk(q), 1);
    q.states = BIT(READY);
    CHECK_INT(walk(q), 1);
    fix_close();
}

TEST(what_was_made_from_an_image)
{
    static const char both[] = "{\"image\":\"web:1\",\"snapshot\":\"snap_one\"}";
    struct store_query q = { .kind = STORE_SANDBOXES, .profile = STR("web:1") };
    struct sandbox_record b;
    struct store_txn t;

    fix_open();
    put_sandboxes(1, 9, "one", SANDBOX_READY);
    store_txn_begin(&t, fix.store);
    for (int i = 20; i < 30; i++) {
        b = sandbox(i);
        b.request = i % 2 ? str_from(both) : STR("{\"env\":{\"image\":\"web:1\"}}");
        store_put_sandbox(&t, &b);
    }
    commit(&t);
    CHECK_INT(walk(q), 5);
    q.profile = STR("snap_one");
    CHECK_INT(walk(q), 5);
    store_txn_begin(&t, fix.store);
    b.state = SANDBOX_DESTROYED;
    store_put_sandbox(&t, &b);
    commit(&t);
    q.profile = STR("web:1");
    q.states = BIT(READY);
    CHECK_INT(walk(q), 4);
    q.states = BIT(DESTROYED);
    CHECK_INT(walk(q), 1);
    fix_close();
}

TEST(sandboxes_of_one_moment_are_paged_by_id)
{
    struct store_query q = { .kind = STORE_SANDBOXES, .limit = 1 };
    struct store_txn t;
    char seen[5][ID_MAX];

    fix_open();
    store_txn_begin(&t, fix.store);
    for (int i = 0; i < 5; i++) {
        struct sandbox_record b = sandbox(i);

        b.created_ns = 42;
        b.state = i % 2 ? SANDBOX_DESTROYED : SANDBOX_READY;
        store_put_sandbox(&t, &b);
    }
    commit(&t);
    for (int i = 0; i < 5; i++) {
        ask(&q);
        CHECK_INT(q.n, 1);
        memcpy(seen[i], q.sandboxes[0].id, ID_MAX);
        CHECK(i == 0 || strcmp(seen[i - 1], seen[i]) < 0);
        q.after.created_ns = 42;
        memcpy(q.after.id, seen[i], ID_MAX);
        arena_done(&q.arena);
    }
    ask(&q);
    CHECK_INT(q.n, 0);
    arena_done(&q.arena);
    q.ascending = true; /* and back */
    for (int i = 3; i >= 0; i--) {
        ask(&q);
        CHECK_INT(q.n, 1);
        CHECK_STR(str_from(q.sandboxes[0].id), seen[i]);
        memcpy(q.after.id, seen[i], ID_MAX);
        arena_done(&q.arena);
    }
    fix_close();
}

TEST(prefixes_find_at_most_two_live_ones_first)
{
    struct store_query q = { .kind = STORE_PREFIX, .text = STR("sbx_0000000000000000000") };

    fix_open();
    put_sandboxes(1, 9, "one", SANDBOX_DESTROYED);
    put_sandboxes(9, 10, "one", SANDBOX_READY);
    put_sandboxes(10, 20, "two", SANDBOX_READY);
    ask(&q);
    CHECK_INT(q.n, 2);
    CHECK_STR(str_from(q.sandboxes[0].id), "sbx_00000000000000000009");
    CHECK_STR(str_from(q.sandboxes[1].id), "sbx_00000000000000000001");
    arena_done(&q.arena);
    q.text = STR("sbx_");
    q.owner = STR("one");
    ask(&q);
    CHECK_INT(q.n, 2);
    CHECK_STR(str_from(q.sandboxes[0].id), "sbx_00000000000000000009");
    arena_done(&q.arena);
    q.owner = STR("two");
    ask(&q);
    CHECK_STR(str_from(q.sandboxes[0].id), "sbx_00000000000000000010");
    arena_done(&q.arena);
    q.text = STR("sbx_00000000000000000003");
    CHECK_INT(count_of(q), 0); /* it belongs to another owner */
    q.owner = STR("one");
    CHECK_INT(count_of(q), 1);
    q.text = STR("sbx_000000000000000000030");
    CHECK_INT(count_of(q), 0);
    q.text = STR("sbx_0000000000000000000300000000000000000000000000000000");
    CHECK_INT(count_of(q), 0);
    q.text = STR("");
    CHECK_INT(count_of(q), 2);
    fix_close();
}

TEST(a_prefix_of_too_many_is_refused)
{
    struct store_query q = { .kind = STORE_PREFIX, .text = STR("sbx_") };

    fix_open();
    put_sandboxes(0, 1000, "one", SANDBOX_DESTROYED);
    CHECK_OK(store_ask_now(fix.store, &q, &e), e);
    CHECK_INT(q.n, 2);
    arena_done(&q.arena);
    put_sandboxes(1000, 1001, "two", SANDBOX_DESTROYED);
    CHECK_INT(store_ask_now(fix.store, &q, &e), -ERR_INVALID);
    CHECK(strstr(e.msg, "give a longer prefix"));
    arena_done(&q.arena);
    put_sandboxes(0, 2, "one", SANDBOX_READY); /* two live ones are answer enough */
    CHECK_OK(store_ask_now(fix.store, &q, &e), e);
    CHECK_INT(q.n, 2);
    CHECK_INT(q.sandboxes[1].state, SANDBOX_READY);
    arena_done(&q.arena);
    fix_close();
}

TEST(one_is_found_by_its_owner_only)
{
    struct store_query q = { .kind = STORE_SANDBOX, .text = STR("sbx_00000000000000000001") };

    fix_open();
    put_sandboxes(1, 2, "one", SANDBOX_READY);
    CHECK_INT(count_of(q), 1);
    q.owner = STR("one");
    CHECK_INT(count_of(q), 1);
    q.owner = STR("two");
    CHECK_INT(count_of(q), 0);
    fix_close();
}

TEST(the_due_come_by_deadline)
{
    struct store_query q = { .kind = STORE_DUE, .limit = 2 };
    struct store_txn t;

    fix_open();
    store_txn_begin(&t, fix.store);
    for (int i = 0; i < 4; i++) {
        struct sandbox_record b = sandbox(i);

        b.deadline_ns = (int64_t[]){ 30, 0, 10, 20 }[i];
        store_put_sandbox(&t, &b);
    }
    commit(&t);
    ask(&q);
    CHECK_INT(q.n, 2);
    CHECK_INT(q.sandboxes[0].deadline_ns, 10);
    CHECK_INT(q.sandboxes[1].deadline_ns, 20);
    arena_done(&q.arena);
    q.limit = 0;
    CHECK_INT(count_of(q), 3);
    fix_close();
}

/* ---- events */

static int64_t add_events(int from, int to)
{
    struct store_txn t;

    store_txn_begin(&t, fix.store);
    for (int i = from; i < to; i++) {
        struct event_record v = event(i % 3, "sandbox.ready");

        v.time_ns = i;
        snprintf(v.owner, sizeof v.owner, "owner%d", i % 2);
        store_add_event(&t, &v);
    }
    commit(&t);
    CHECK_INT(t.last_seq - t.first_seq, to - from - 1);
    return t.last_seq;
}

TEST(events_come_in_order_by_sandbox_and_owner)
{
    struct store_query q = { .kind = STORE_EVENTS };

    fix_open();
    CHECK_INT(add_events(0, 12), 12);
    ask(&q);
    CHECK_INT(q.n, 12);
    for (size_t i = 0; i < q.n; i++)
        CHECK_INT(q.events[i].seq, (int)i + 1);
    arena_done(&q.arena);
    q.after_seq = 10;
    CHECK_INT(count_of(q), 2);
    q.after_seq = 0;
    q.sandbox = STR("sbx_00000000000000000001");
    CHECK_INT(count_of(q), 4);
    q.owner = STR("owner1");
    CHECK_INT(count_of(q), 2);
    q.sandbox = STR("");
    CHECK_INT(count_of(q), 6);
    q.limit = 5;
    CHECK_INT(count_of(q), 5);
    fix_close();
}

/* The numbers of what is found, in their order. */
static void check_history(struct store_query q, int first, int step, size_t n)
{
    ask(&q);
    CHECK_INT(q.n, n);
    for (size_t i = 0; i < n && i < q.n; i++)
        CHECK_INT(q.events[i].seq, first + (int)i * step);
    arena_done(&q.arena);
}

/* Times are one less than the numbers. */
TEST(events_of_a_time_and_the_last_ones)
{
    struct store_query q = { .kind = STORE_EVENTS, .time_ns = 4, .until_ns = 9 };

    fix_open();
    CHECK_INT(add_events(0, 12), 12);
    check_history(q, 5, 1, 5);
    q.after_seq = 6;
    check_history(q, 7, 1, 3);
    q.after_seq = 0;
    q.latest = true;
    check_history(q, 9, -1, 5);
    q.limit = 2;
    check_history(q, 9, -1, 2);
    q.owner = STR("owner1");
    check_history(q, 8, -2, 2);
    q.sandbox = STR("sbx_00000000000000000001");
    q.limit = 0;
    CHECK_INT(count_of(q), 1);
    fix_close();
}

TEST(events_of_a_type)
{
    struct store_query q = { .kind = STORE_EVENTS, .text = STR("odd") };
    struct store_txn t;

    fix_open();
    store_txn_begin(&t, fix.store);
    for (int i = 0; i < 12; i++) {
        struct event_record v = event(1 + i % 3, i % 2 ? "odd" : "even");

        snprintf(v.owner, sizeof v.owner, "owner%d", i / 6);
        store_add_event(&t, &v);
    }
    commit(&t);
    check_history(q, 2, 2, 6);
    q.limit = 2;
    check_history(q, 2, 2, 2);
    q.latest = true;
    check_history(q, 12, -2, 2);
    q.owner = STR("owner0");
    check_history(q, 6, -2, 2);
    q.sandbox = STR("sbx_00000000000000000002");
    check_history(q, 2, 0, 1);
    q.text = STR("none");
    CHECK_INT(count_of(q), 0);
    fix_close();
}

TEST(what_happened_to_a_sandbox_from_a_time_on_and_back_from_it)
{
    struct store_query q = { .kind = STORE_HISTORY,
                             .sandbox = STR("sbx_00000000000000000001"),
                             .ascending = true };
    struct store_query back = q;

    fix_open();
    add_events(0, 3000); /* a third of them are its own: 2, 5, 8 … */
    back.ascending = false;
    back.time_ns = INT64_MAX;
    check_history(q, 2, 3, 1000);
    check_history(back, 2999, -3, 1000);
    q.limit = back.limit = 4;
    check_history(q, 2, 3, 4);
    check_history(back, 2999, -3, 4);
    q.time_ns = back.time_ns = 2500; /* of the event 2501, which is its own */
    check_history(q, 2501, 3, 4);
    check_history(back, 2501, -3, 4);
    q.time_ns = back.time_ns = 2499;
    check_history(q, 2501, 3, 4);
    check_history(back, 2498, -3, 4);
    q.time_ns = INT64_MAX;
    back.time_ns = 0;
    check_history(q, 0, 0, 0);
    check_history(back, 0, 0, 0);
    q.time_ns = 0;
    q.sandbox = STR("sbx_nobody");
    check_history(q, 0, 0, 0);
    fix_close();
}

TEST(what_happened_to_a_sandbox_by_words)
{
    struct store_query q = { .kind = STORE_HISTORY,
                             .sandbox = STR("sbx_00000000000000000001"),
                             .ascending = true };
    struct event_record x = event(5000, "sandbox.odd");
    struct store_txn t;

    fix_open();
    add_events(0, 3000);
    store_txn_begin(&t, fix.store);
    snprintf(x.sandbox, sizeof x.sandbox, "%s", q.sandbox.p);
    snprintf(x.reason, sizeof x.reason, "it was 100%% odd");
    store_add_event(&t, &x);
    commit(&t);
    q.text = STR("100% odd");
    check_history(q, 3001, 0, 1);
    q.text = STR("box.odd");
    check_history(q, 3001, 0, 1);
    q.text = STR("even");
    check_history(q, 0, 0, 0);
    q.text = STR("");
    CHECK_INT(count_of(q), 1001);
    fix_close();
}

TEST(events_of_sandboxes_with_labels)
{
    static const struct json_pair one[] = { { "team", "a" } },
                                  both[] = { { "team", "a" }, { "x", "y" } },
                                  none[] = { { "team", "b" } };
    struct sandbox_record b = sandbox(1);
    struct store_query q = { .kind = STORE_EVENTS, .labels = { one, 1 } };
    struct store_txn t;

    fix_open();
    b.labels = (struct json_map){ both, 2 };
    store_txn_begin(&t, fix.store);
    store_put_sandbox(&t, &b);
    commit(&t);
    CHECK_INT(add_events(0, 12), 12); /* of three sandboxes, of which one is on record */
    CHECK_INT(count_of(q), 4);
    q.labels = (struct json_map){ both, 2 };
    CHECK_INT(count_of(q), 4);
    q.owner = STR("owner1");
    CHECK_INT(count_of(q), 2);
    q.after_seq = 6;
    q.limit = 1;
    CHECK_INT(count_of(q), 1);
    q.labels = (struct json_map){ none, 1 };
    CHECK_INT(count_of(q), 0);
    fix_close();
}

TEST(a_number_is_never_given_twice)
{
    struct store_txn t;

    fix_open();
    CHECK_INT(add_events(0, 10), 10);
    store_txn_begin(&t, fix.store);
    store_prune(&t, 0, 100, 100);
    commit(&t);
    CHECK_INT(t.first_seq, 0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_EVENTS }), 0);
    fix_close();
    fix_open();
    CHECK_INT(add_events(0, 1), 11);
    fix_close();
}

TEST(the_outbox_fills_only_for_a_hub)
{
    struct store_query q = { .kind = STORE_OUTBOX, .limit = 3 };
    struct store_txn t;

    fix_open();
    add_events(0, 5);
    CHECK_INT(count_of(q), 0);
    store_hub(fix.store, true);
    add_events(5, 10);
    ask(&q);
    CHECK_INT(q.n, 3);
    for (size_t i = 0; i < 3; i++)
        CHECK_INT(q.events[i].seq, 6 + (int)i);
    arena_done(&q.arena);
    store_txn_begin(&t, fix.store);
    store_outbox_sent(&t, 7); /* exactly this one */
    commit(&t);
    ask(&q);
    CHECK_INT(q.events[0].seq, 6);
    CHECK_INT(q.events[1].seq, 8);
    arena_done(&q.arena);
    q.after_seq = 8;
    CHECK_INT(count_of(q), 2);
    fix_close();
    fix_open();
    q.after_seq = 0;
    q.limit = 0;
    CHECK_INT(count_of(q), 4); /* it outlives the daemon */
    fix_close();
}

TEST(pruning_spares_what_the_hub_has_not_taken)
{
    struct store_txn t;

    fix_open();
    add_events(0, 3);
    store_hub(fix.store, true);
    add_events(3, 6);
    add_events(1000, 1003);
    store_txn_begin(&t, fix.store);
    store_outbox_sent(&t, 5);
    store_prune(&t, 0, 500, 3);
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_EVENTS }), 6);
    store_txn_begin(&t, fix.store);
    store_prune(&t, 0, 500, 3);
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_EVENTS }), 5);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_OUTBOX }), 5);
    store_hub(fix.store, false); /* no hub will receive them */
    store_txn_begin(&t, fix.store);
    store_prune(&t, 0, 500, 30);
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_EVENTS }), 3);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_OUTBOX }), 3);
    fix_close();
}

static int64_t first_event(void)
{
    struct store_query q = { .kind = STORE_EVENTS, .limit = 1 };
    int64_t seq;

    ask(&q);
    seq = q.n ? q.events[0].seq : 0;
    arena_done(&q.arena);
    return seq;
}

TEST(pruning_leaves_the_newest_events)
{
    struct store_txn t;

    fix_open();
    add_events(0, 20);
    store_keep_events(fix.store, 12);
    store_txn_begin(&t, fix.store);
    store_prune(&t, 0, 0, 5);
    commit(&t);
    CHECK_INT(t.pruned.rows, 5); /* a batch: there are more */
    CHECK_INT(first_event(), 6);
    store_txn_begin(&t, fix.store);
    store_prune(&t, 0, 0, 5);
    commit(&t);
    CHECK_INT(t.pruned.rows, 3);
    CHECK_INT(first_event(), 9);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_EVENTS }), 12);
    store_txn_begin(&t, fix.store);
    store_prune(&t, 0, 0, 5);
    commit(&t);
    CHECK_INT(t.pruned.rows, 0);
    fix_close();
}

TEST(events_that_the_hub_did_not_take_leave_a_gap_on_record)
{
    struct store_query q = { .kind = STORE_EVENTS };
    char detail[STORE_GAP_MAX];
    struct event_record v;
    struct store_txn t;

    fix_open();
    store_hub(fix.store, true);
    add_events(0, 10);
    store_keep_events(fix.store, 6);
    store_txn_begin(&t, fix.store);
    store_outbox_sent(&t, 1);
    store_prune(&t, 0, 1000, 100); /* all are old, and three of those that are too many wait */
    commit(&t);
    CHECK(store_gap_event(&t, detail, &v));
    CHECK_INT(v.seq, 11);
    CHECK_STR(v.detail, "{\"events\":3,\"first\":2,\"last\":4}");
    ask(&q);
    CHECK_INT(q.n, 7); /* 5 to 10 wait, and the gap */
    CHECK_INT(q.events[0].seq, 5);
    CHECK_STR(str_from(q.events[6].type), "events.dropped");
    CHECK_STR(q.events[6].detail, "{\"events\":3,\"first\":2,\"last\":4}");
    arena_done(&q.arena);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_OUTBOX }), 7);
    store_txn_begin(&t, fix.store);
    store_prune(&t, 0, 1000, 0);
    commit(&t);
    CHECK(!store_gap_event(&t, detail, &v));
    fix_close();
}

TEST(events_are_counted_by_owner_from_a_time_on)
{
    struct store_query q = { .kind = STORE_EVENT_COUNTS, .time_ns = 7 };

    fix_open();
    ask(&q);
    CHECK_INT(q.n, 0);
    arena_done(&q.arena);
    add_events(0, 12); /* of owner0 and owner1 in turn */
    ask(&q);
    CHECK_INT(q.n, 2);
    CHECK_STR(str_from(q.counts[0].owner), "owner0");
    CHECK_INT(q.counts[0].n, 2);
    CHECK_STR(str_from(q.counts[1].owner), "owner1");
    CHECK_INT(q.counts[1].n, 3);
    arena_done(&q.arena);
    q = (struct store_query){ .kind = STORE_EVENT_COUNTS, .time_ns = 11 };
    ask(&q);
    CHECK_INT(q.n, 1); /* owner0 has none that is so new */
    CHECK_STR(str_from(q.counts[0].owner), "owner1");
    arena_done(&q.arena);
    fix_close();
}

TEST(pruning_removes_destroyed_sandboxes_with_what_is_theirs)
{
    struct process_record p = { .sandbox = "sbx_00000000000000000001", .proc = 1 };
    struct idempotency_record i = { .owner = "one",
                                    .key = "k",
                                    .sandbox = "sbx_00000000000000000001" };
    struct store_txn t;

    fix_open();
    put_sandboxes(1, 6, "one", SANDBOX_DESTROYED);
    put_sandboxes(6, 8, "one", SANDBOX_READY);
    store_txn_begin(&t, fix.store);
    store_put_process(&t, &p);
    store_put_idempotency(&t, &i);
    commit(&t);
    store_txn_begin(&t, fix.store);
    store_prune(&t, INT64_MAX, 0, 3);
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), 4);
    CHECK_INT(
        count_of((struct store_query){ .kind = STORE_PROCESSES, .sandbox = str_from(p.sandbox) }),
        0);
    CHECK_INT(count_of((struct store_query){
                  .kind = STORE_IDEMPOTENCY, .owner = STR("one"), .text = STR("k") }),
              0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES, .profile = STR("python") }),
              4);
    store_txn_begin(&t, fix.store);
    store_prune(&t, INT64_C(5000000005), 0, 100); /* 5 was destroyed at that very time */
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), 3);
    store_txn_begin(&t, fix.store);
    store_prune(&t, INT64_MAX, INT64_MAX, 0);
    store_prune(&t, INT64_MAX, INT64_MAX, -5);
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), 3);
    fix_close();
}

/* ---- the small tables */

TEST(processes_of_a_sandbox)
{
    struct process_record p = { .sandbox = "sbx_00000000000000000001",
                                .proc = UINT32_MAX,
                                .spec = STR("{}"),
                                .started_ns = 5 };
    struct store_query q = { .kind = STORE_PROCESSES, .sandbox = str_from(p.sandbox) };
    struct store_txn t;

    fix_open();
    store_txn_begin(&t, fix.store);
    store_put_process(&t, &p);
    CHECK_INT(try_commit(&t), -ERR_CONFLICT); /* there is no such sandbox */
    put_sandboxes(1, 2, "one", SANDBOX_READY);
    store_txn_begin(&t, fix.store);
    store_put_process(&t, &p);
    p.proc = 2;
    store_put_process(&t, &p);
    p.ended = true;
    p.how = 1;
    p.status = -9;
    store_put_process(&t, &p);
    commit(&t);
    ask(&q);
    CHECK_INT(q.n, 2);
    CHECK(q.processes[0].proc == 2 && q.processes[0].ended && q.processes[0].status == -9);
    CHECK(q.processes[1].proc == UINT32_MAX && !q.processes[1].ended);
    CHECK_STR(q.processes[0].spec, "{}");
    arena_done(&q.arena);
    store_txn_begin(&t, fix.store);
    store_delete_process(&t, p.sandbox, 2);
    store_delete_process(&t, p.sandbox, 3); /* is not there */
    store_delete_process(&t, "sbx_00000000000000000002", UINT32_MAX);
    commit(&t);
    ask(&q);
    CHECK_INT(q.n, 1);
    CHECK_INT(q.processes[0].proc, UINT32_MAX);
    arena_done(&q.arena);
    fix_close();
}

TEST(the_policy_of_a_sandbox_goes_with_it)
{
    struct egress_record r = {
        .sandbox = "sbx_00000000000000000001", .generation = 1, .endpoints = 3, .policy = STR("{}")
    };
    struct store_query q = { .kind = STORE_EGRESS, .sandbox = str_from(r.sandbox) };
    struct store_txn t;

    fix_open();
    store_txn_begin(&t, fix.store);
    store_put_egress(&t, &r);
    CHECK_INT(try_commit(&t), -ERR_CONFLICT); /* there is no such sandbox */
    put_sandboxes(1, 2, "one", SANDBOX_DESTROYED);
    store_txn_begin(&t, fix.store);
    store_put_egress(&t, &r);
    r.generation = 2;
    r.policy = STR("{\"version\":1}");
    store_put_egress(&t, &r);
    commit(&t);
    ask(&q);
    CHECK_INT(q.n, 1);
    CHECK_INT(q.egress[0].generation, 2);
    CHECK_INT(q.egress[0].endpoints, 3);
    CHECK_STR(q.egress[0].policy, "{\"version\":1}");
    arena_done(&q.arena);
    store_txn_begin(&t, fix.store);
    store_prune(&t, INT64_MAX, 0, 10);
    commit(&t);
    CHECK_INT(count_of(q), 0);
    fix_close();
}

TEST(families_of_sandboxes_and_snapshots_stay)
{
    struct snapshot_record s = { .id = "snap_1", .owner = "o", .family = "tok_2" };
    struct sandbox_record b = sandbox(1);
    struct store_query q = { .kind = STORE_SANDBOX, .text = str_from(b.id) };
    struct store_txn t;

    fix_open();
    snprintf(b.maker, sizeof b.maker, "tok_1");
    snprintf(b.family, sizeof b.family, "tok_0");
    for (int round = 0; round < 2; round++) { /* new, and moved */
        store_txn_begin(&t, fix.store);
        store_put_sandbox(&t, &b);
        store_put_snapshot(&t, &s);
        commit(&t);
        b.state = SANDBOX_READY;
    }
    ask(&q);
    CHECK_INT(q.n, 1);
    CHECK_INT(q.sandboxes[0].state, SANDBOX_READY);
    CHECK_STR(str_from(q.sandboxes[0].maker), "tok_1");
    CHECK_STR(str_from(q.sandboxes[0].family), "tok_0");
    arena_done(&q.arena);
    q = (struct store_query){ .kind = STORE_SNAPSHOTS };
    ask(&q);
    CHECK_INT(q.n, 1);
    CHECK_STR(str_from(q.snapshots[0].family), "tok_2");
    arena_done(&q.arena);
    fix_close();
}

TEST(tokens_hosts_and_settings)
{
    static const struct json_pair pair[] = { { "k", "v\n\"é" } };
    struct token_record k = { .id = "tok_1",
                              .name = "n",
                              .owner = "o",
                              .actor = ACTOR_ATM,
                              .verbs = UINT64_MAX,
                              .maker = "tok_maker",
                              .labels = { pair, 1 } };
    struct host_record h = { .name = "h", .address = "local", .labels = { pair, 1 } };
    struct store_query q = { .kind = STORE_TOKENS };
    struct store_txn t;

    memset(k.hash, 0xab, sizeof k.hash);
    fix_open();
    store_txn_begin(&t, fix.store);
    store_put_token(&t, &k);
    store_put_host(&t, &h);
    store_set(&t, "cursor", "1");
    store_set(&t, "cursor", "2");
    commit(&t);
    ask(&q);
    CHECK_INT(q.n, 1);
    CHECK(q.tokens[0].verbs == UINT64_MAX && q.tokens[0].actor == ACTOR_ATM);
    CHECK(memcmp(q.tokens[0].hash, k.hash, sizeof k.hash) == 0);
    CHECK_STR(str_from(q.tokens[0].labels.p[0].value), pair[0].value);
    arena_done(&q.arena);
    q.kind = STORE_HOSTS;
    CHECK_INT(count_of(q), 1);
    q.kind = STORE_SETTING;
    q.text = STR("cursor");
    ask(&q);
    CHECK_STR(str_from(q.setting), "2");
    arena_done(&q.arena);
    q.text = STR("none");
    ask(&q);
    CHECK(!q.setting);
    arena_done(&q.arena);
    store_txn_begin(&t, fix.store);
    store_end_token(&t, k.id, 9);
    store_end_token(&t, k.id, 10); /* it has ended */
    store_end_token(&t, "tok_nobody", 9);
    store_remove_host(&t, "h");
    store_remove_host(&t, "nobody");
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_HOSTS }), 0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_TOKENS }), 0);
    q = (struct store_query){ .kind = STORE_TOKENS_REVOKED };
    ask(&q);
    CHECK_INT(q.n, 1);
    CHECK(q.tokens[0].revoked_ns == 9);
    CHECK_STR(str_from(q.tokens[0].maker), "tok_maker");
    arena_done(&q.arena);
    fix_close();
}

TEST(tokens_that_ended_long_ago_are_pruned)
{
    static const struct {
        int64_t expires_ns, revoked_ns;
    } all[] = { { 0, 0 }, { 500, 0 }, { 50, 0 }, { 500, 50 }, { 0, 500 } };
    struct store_query good = { .kind = STORE_TOKENS, .time_ns = 100 }, expired = good;
    struct store_txn t;

    fix_open();
    store_txn_begin(&t, fix.store);
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct token_record k = { .expires_ns = all[i].expires_ns,
                                  .revoked_ns = all[i].revoked_ns };

        snprintf(k.id, sizeof k.id, "tok_%zu", i);
        memset(k.hash, (int)i, sizeof k.hash);
        store_put_token(&t, &k);
    }
    commit(&t);
    expired.kind = STORE_TOKENS_EXPIRED;
    CHECK_INT(count_of(good), 2);
    CHECK_INT(count_of(expired), 1);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_TOKENS_REVOKED }), 2);
    store_txn_begin(&t, fix.store);
    store_prune(&t, 0, 100, 10);
    commit(&t);
    CHECK_INT(count_of(good), 2);
    CHECK_INT(count_of(expired), 0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_TOKENS_REVOKED }), 1);
    fix_close();
}

TEST(a_key_is_taken_once)
{
    struct idempotency_record i = { .owner = "one", .key = "k", .sandbox = "sbx_1" };
    struct sandbox_record b = sandbox(5);
    struct store_txn t;

    fix_open();
    store_txn_begin(&t, fix.store);
    store_put_idempotency(&t, &i);
    commit(&t);
    store_txn_begin(&t, fix.store);
    store_put_sandbox(&t, &b);
    store_put_idempotency(&t, &i);
    CHECK_INT(try_commit(&t), -ERR_CONFLICT);
    CHECK_STR(str_from(e.msg), "the idempotency key 'k' is taken");
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), 0); /* nothing of it */
    CHECK(str_copy(STR("two"), i.owner, sizeof i.owner));
    store_txn_begin(&t, fix.store);
    store_put_idempotency(&t, &i);
    commit(&t);
    fix_close();
}

/* ---- limits, and ends */

TEST(a_change_has_a_limit)
{
    struct sandbox_record b = sandbox(1);
    struct store_txn t;
    AUTO_FREE char *big = calloc(1, STORE_TXN_MAX + 1);

    fix_open();
    b.detail = (struct str){ big, STORE_TXN_MAX + 1 };
    store_txn_begin(&t, fix.store);
    store_put_sandbox(&t, &b);
    CHECK_INT(try_commit(&t), -ERR_TOO_BIG);
    store_txn_begin(&t, fix.store);
    for (int i = 0; i < 200000; i++)
        store_outbox_sent(&t, i);
    CHECK_INT(try_commit(&t), -ERR_TOO_BIG);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), 0);
    fix_close();
}

static int answers;

static void count_answer(struct store_query *q, int r, const struct err *err)
{
    CHECK_INT(r, 0);
    answers++;
    arena_done(&q->arena);
}

TEST(questions_have_a_limit)
{
    static struct store_query q[STORE_ASKED_MAX + 1];

    fix_open();
    for (int i = 0; i < STORE_ASKED_MAX; i++) {
        q[i].kind = i % 2 ? STORE_HOSTS : STORE_LIVE;
        CHECK_OK(store_ask(fix.store, &q[i], count_answer, &e), e);
    }
    CHECK_INT(store_ask(fix.store, &q[STORE_ASKED_MAX], count_answer, &e), -ERR_BUSY);
    while (answers < STORE_ASKED_MAX)
        turn();
    CHECK_OK(store_ask(fix.store, &q[STORE_ASKED_MAX], count_answer, &e), e);
    while (answers < STORE_ASKED_MAX + 1)
        turn();
    fix_close();
}

static int commits, chained;
static struct store_txn chain;

static void on_chained(struct store_txn *t, int r, const struct err *err)
{
    CHECK_OK(r, *err);
    chained++;
}

/* In order; the last one starts another from inside. */
static void on_commit(struct store_txn *t, int r, const struct err *err)
{
    CHECK_OK(r, *err);
    CHECK_INT(t->first_seq, ++commits);
    if (commits < 2000)
        return;
    store_txn_begin(&chain, fix.store);
    store_set(&chain, "k", "v");
    store_commit(&chain, on_chained);
}

TEST(closing_finishes_what_was_begun)
{
    static struct store_txn t[2000];
    static struct store_query q[100];

    fix_open();
    for (int i = 0; i < 2000; i++) {
        struct event_record v = event(i, "x");

        store_txn_begin(&t[i], fix.store);
        store_add_event(&t[i], &v);
        store_commit(&t[i], on_commit);
    }
    for (int i = 0; i < 100; i++) {
        q[i].kind = STORE_EVENTS;
        CHECK_OK(store_ask(fix.store, &q[i], count_answer, &e), e);
    }
    fix_close();
    CHECK_INT(commits, 2000);
    CHECK_INT(answers, 100);
    CHECK_INT(chained, 1);
    fix_open();
    CHECK_INT(count_of((struct store_query){ .kind = STORE_EVENTS }), 2000);
    fix_close();
}

TEST(a_full_pool_delays_and_loses_nothing)
{
    static struct store_txn t[2000];
    static struct store_query q[100];

    fix_dir();
    CHECK_OK(loop_init(&fix.loop, &e), e);
    CHECK_OK(thread_pool_init(&fix.pool, &fix.loop, 1, 1, &e), e);
    CHECK_OK(store_open(fix.scratch.dir, &fix.loop, &fix.pool, &fix.store, &e), e);
    for (int i = 0; i < 100; i++) {
        q[i].kind = STORE_EVENTS;
        CHECK_OK(store_ask(fix.store, &q[i], count_answer, &e), e);
    }
    for (int i = 0; i < 2000; i++) {
        struct event_record v = event(i, "x");

        store_txn_begin(&t[i], fix.store);
        store_add_event(&t[i], &v);
        store_commit(&t[i], on_commit);
    }
    while (commits < 2000 || answers < 100 || !chained)
        turn();
    fix_close();
}

TEST(the_pool_may_end_first)
{
    static struct store_txn t[2000];

    fix_open();
    for (int i = 0; i < 2000; i++) {
        struct event_record v = event(i, "x");

        store_txn_begin(&t[i], fix.store);
        store_add_event(&t[i], &v);
        store_commit(&t[i], on_commit);
    }
    thread_pool_done(&fix.pool);
    store_close(fix.store);
    loop_done(&fix.loop);
    CHECK_INT(commits, 2000);
    CHECK_INT(chained, 1);
}

TEST(a_bad_label_is_refused)
{
    static const struct json_pair nameless[] = { { "", "x" } }, bytes[] = { { "a", "\xff" } },
                                  twice[] = { { "a", "1" }, { "b", "2" }, { "a", "3" } };
    const struct json_map bad[] = { { nameless, 1 }, { bytes, 1 }, { twice, 3 } };
    struct sandbox_record b = sandbox(1);
    struct store_txn t;

    fix_open();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        b.labels = bad[i];
        store_txn_begin(&t, fix.store);
        store_put_sandbox(&t, &b);
        CHECK_INT(try_commit(&t), -ERR_INVALID);
    }
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), 0);
    fix_close();
}

TEST(calls_that_block)
{
    struct store_query q = { .kind = STORE_LIVE };
    struct sandbox_record b = sandbox(1);
    struct idempotency_record i = { .owner = "one", .key = "k" };
    struct store_txn t;

    fix_open();
    for (int turn = 0; turn < 2; turn++) {
        store_txn_begin(&t, fix.store);
        store_put_sandbox(&t, &b);
        store_put_idempotency(&t, &i);
        CHECK_INT(store_commit_now(&t, &e), turn ? -ERR_CONFLICT : 0);
    }
    CHECK_OK(store_ask_now(fix.store, &q, &e), e);
    CHECK_INT(q.n, 1);
    arena_done(&q.arena);
    fix_close();
}

static struct approval_record approval(int n, const char *owner)
{
    struct approval_record r = { .uid = -1,
                                 .tool = "sandbox_exec",
                                 .version = "0123456789abcdef",
                                 .tier = 4,
                                 .created_ns = n * NS_PER_S,
                                 .expires_ns = INT64_MAX,
                                 .args = STR("{\"command\":\"\xc3\xa9\"}"),
                                 .result = STR("") };

    snprintf(r.id, sizeof r.id, "req_%020d", n);
    snprintf(r.owner, sizeof r.owner, "%s", owner);
    return r;
}

static int move(struct approval_record *r, enum approval_state from, enum approval_state to)
{
    struct store_txn t;

    r->state = to;
    store_txn_begin(&t, fix.store);
    store_move_approval(&t, r, from);
    return try_commit(&t);
}

TEST(a_held_call_moves_from_where_it_is)
{
    struct approval_record r = approval(1, "one");
    struct store_query q = { .kind = STORE_APPROVAL, .text = str_from(r.id) };
    struct store_txn t;

    fix_open();
    store_txn_begin(&t, fix.store);
    store_add_approval(&t, &r);
    commit(&t);
    store_txn_begin(&t, fix.store);
    store_add_approval(&t, &r);
    CHECK_INT(try_commit(&t), -ERR_CONFLICT);
    CHECK_INT(move(&r, APPROVAL_APPROVED, APPROVAL_RUNNING), -ERR_CONFLICT);
    CHECK_INT(move(&r, APPROVAL_PENDING, APPROVAL_APPROVED), 0);
    CHECK_INT(move(&r, APPROVAL_PENDING, APPROVAL_APPROVED), -ERR_CONFLICT);
    CHECK_INT(move(&r, APPROVAL_APPROVED, APPROVAL_RUNNING), 0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_APPROVALS_OPEN }), 1);
    r.result = STR("{}");
    r.failed = true;
    CHECK_INT(move(&r, APPROVAL_RUNNING, APPROVAL_DONE), 0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_APPROVALS_OPEN }), 0);
    ask(&q);
    CHECK_INT(q.approvals[0].state, APPROVAL_DONE);
    CHECK_STR(q.approvals[0].args, "{\"command\":\"\xc3\xa9\"}");
    CHECK_STR(q.approvals[0].result, "{}");
    CHECK(q.approvals[0].failed && q.approvals[0].uid == -1);
    arena_done(&q.arena);
    q.owner = STR("two");
    CHECK_INT(count_of(q), 0);
    fix_close();
}

TEST(held_calls_are_paged_and_pruned)
{
    struct store_query q = { .kind = STORE_APPROVALS, .limit = 3 };
    struct store_txn t;

    fix_open();
    store_txn_begin(&t, fix.store);
    for (int i = 0; i < 10; i++) {
        struct approval_record r = approval(i, i % 2 ? "one" : "two");

        r.state = i < 2 ? APPROVAL_PENDING : APPROVAL_REJECTED;
        store_add_approval(&t, &r);
    }
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_APPROVALS, .owner = STR("one") }), 5);
    ask(&q);
    CHECK_INT(q.n, 3);
    CHECK_INT(q.approvals[0].created_ns, 9 * NS_PER_S);
    q.after.created_ns = q.approvals[2].created_ns;
    memcpy(q.after.id, q.approvals[2].id, ID_MAX);
    arena_done(&q.arena);
    ask(&q);
    CHECK_INT(q.approvals[0].created_ns, 6 * NS_PER_S);
    arena_done(&q.arena);
    store_txn_begin(&t, fix.store);
    store_prune(&t, 0, 5 * NS_PER_S, 100);
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_APPROVALS }), 7); /* two of them wait */
    fix_close();
}

TEST(images_and_layers)
{
    struct image_record i = { .ref = "web:1",
                              .digest = "sha256:1",
                              .id = "sha256:2",
                              .config = STR("{}"),
                              .layers = STR("sha256-3 sha256-4"),
                              .created_ns = 5 };
    struct layer_record l = { .name = "sha256-3", .digest = "sha256:5", .bytes = 6, .entries = 7 };
    struct store_query q = { .kind = STORE_IMAGES };
    struct store_txn t;

    fix_open();
    store_txn_begin(&t, fix.store);
    store_put_image(&t, &i);
    str_copy(STR("sha256:9"), i.digest, sizeof i.digest);
    store_put_image(&t, &i);
    store_put_layer(&t, &l);
    l.bytes = 8;
    store_put_layer(&t, &l);
    commit(&t);
    ask(&q);
    CHECK_INT(q.n, 1);
    CHECK_STR(str_from(q.images[0].digest), "sha256:9");
    CHECK_STR(q.images[0].layers, "sha256-3 sha256-4");
    arena_done(&q.arena);
    q.kind = STORE_LAYERS;
    ask(&q);
    CHECK(q.n == 1 && memcmp(&q.layers[0], &l, sizeof l) == 0);
    arena_done(&q.arena);
    store_txn_begin(&t, fix.store);
    store_remove_image(&t, i.ref);
    store_remove_layer(&t, l.name);
    store_remove_layer(&t, "sha256-none");
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_IMAGES }), 0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_LAYERS }), 0);
    fix_close();
}

TEST(images_and_layers_come_in_pages)
{
    static const enum store_query_kind kinds[] = { STORE_IMAGES, STORE_LAYERS };
    struct image_record i = { .config = STR("{}"), .layers = STR("sha256-3") };
    struct layer_record l = { .bytes = 6 };
    struct store_txn t;

    fix_open();
    store_txn_begin(&t, fix.store);
    for (int n = 0; n < 5; n++) {
        snprintf(i.ref, sizeof i.ref, "web:%d", n);
        snprintf(l.name, sizeof l.name, "web:%d", n);
        store_put_image(&t, &i);
        store_put_layer(&t, &l);
    }
    commit(&t);
    for (size_t k = 0; k < COUNT_OF(kinds); k++) {
        struct store_query q = { .kind = kinds[k], .text = STR("web:1"), .limit = 2 };

        ask(&q);
        CHECK_INT(q.n, 2);
        CHECK_STR(str_from(k ? q.layers[0].name : q.images[0].ref), "web:2");
        CHECK_STR(str_from(k ? q.layers[1].name : q.images[1].ref), "web:3");
        arena_done(&q.arena);
        q = (struct store_query){ .kind = kinds[k], .text = STR("web:3"), .limit = 2 };
        ask(&q);
        CHECK_INT(q.n, 1);
        arena_done(&q.arena);
    }
    fix_close();
}

TEST(peers_and_grants)
{
    static struct json_pair team = { "team", "a" };
    static struct peer_record p = { .id = "peer_1", /* static: its padding is zero, too */
                                    .hash = "0123456789abcdef0123456789abcde",
                                    .owner = "uid:1",
                                    .actor = { .kind = ACTOR_AGT, .id = "tok_1" },
                                    .uid = -1,
                                    .role = ROLE_MASTER,
                                    .client = "x",
                                    .created_ns = 5,
                                    .seen_ns = 6,
                                    .labels = { &team, 1 } };
    struct grant_record g = { .id = "grant_1", .peer = "peer_1", .tool = "t", .uses = 2 };
    struct store_query q = { .kind = STORE_PEERS };
    struct store_txn t;

    fix_open();
    store_txn_begin(&t, fix.store);
    store_put_peer(&t, &p);
    p.ended_ns = 7;
    store_put_peer(&t, &p);
    store_put_grant(&t, &g);
    g.uses = 1;
    store_put_grant(&t, &g);
    commit(&t);
    ask(&q);
    CHECK_INT(q.n, 1);
    CHECK(q.peers[0].labels.n == 1 && strcmp(q.peers[0].labels.p[0].value, "a") == 0);
    q.peers[0].labels = p.labels;
    CHECK(memcmp(&q.peers[0], &p, sizeof p) == 0);
    arena_done(&q.arena);
    q.kind = STORE_GRANTS;
    ask(&q);
    CHECK(q.n == 1 && q.grants[0].uses == 1);
    arena_done(&q.arena);
    store_txn_begin(&t, fix.store);
    store_remove_peer(&t, p.id);
    store_remove_grant(&t, g.id);
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_PEERS }), 0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_GRANTS }), 0);
    fix_close();
}
