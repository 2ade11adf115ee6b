/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/ledger.h"

#include <stdio.h>

#include "base/own.h"
#include "fixture.h"
#include "domain/store/sqlite/internal.h"

static void add_events(int from, int n)
{
    struct store_txn t;

    store_txn_begin(&t, fix.store);
    for (int i = 0; i < n; i++) {
        struct event_record v = event(from + i, "x");

        store_add_event(&t, &v);
    }
    commit(&t);
}

static void prune(int64_t before_s, int limit)
{
    struct store_txn t;

    store_txn_begin(&t, fix.store);
    store_prune(&t, 0, before_s * INT64_C(1000000000), limit);
    commit(&t);
}

static int64_t number(const char *sql)
{
    int64_t n = -1;

    CHECK_OK(db_number(&fix.store->writer.db, sql, &n, &e), e);
    return n;
}

static void damage(const char *sql)
{
    CHECK_OK(db_exec(&fix.store->writer.db, sql, &e), e);
}

static void expect(enum ledger_fault fault, int64_t seq)
{
    struct ledger_walk w = { 0 };

    CHECK(walk_ledger(&w) > 0);
    CHECK_STR(str_from(ledger_fault_names[w.findings[0].fault]), ledger_fault_names[fault]);
    CHECK_INT(w.findings[0].seq, seq);
}

TEST(the_chain_goes_on_when_the_store_is_opened_again)
{
    struct ledger_walk w = { 0 };
    unsigned char key[LEDGER_SIZE];

    fix_open();
    memcpy(key, store_ledger_key(fix.store), sizeof key);
    add_events(1, 20);
    fix_close();
    CHECK(!store_ledger_key(&(struct store){ 0 }));
    fix_open();
    CHECK(memcmp(key, store_ledger_key(fix.store), sizeof key) == 0);
    add_events(21, 5);
    CHECK_INT(walk_ledger(&w), 0);
    CHECK_INT(w.events, 25);
    CHECK_INT(w.head.seq, 25);
    CHECK_INT(w.head.first, 1);
    fix_close();
}

TEST(what_retention_removes_is_not_missing)
{
    fix_open();
    add_events(1, 40);
    prune(11, 4);
    check_ledger();
    prune(11, 100);
    check_ledger();
    CHECK_INT(number("SELECT count(*) FROM events"), 30);
    CHECK_INT(number("SELECT count(*) FROM event_cuts"), 1);
    CHECK_INT(number("SELECT last FROM event_cuts"), 10);
    prune(1000, 1000);
    check_ledger();
    CHECK_INT(number("SELECT count(*) FROM events"), 0);
    add_events(41, 3);
    check_ledger();
    damage("DELETE FROM event_cuts");
    expect(LEDGER_MISSING, 1);
    fix_close();
}

/* Events that the hub has not taken stay where they are. */
TEST(what_is_removed_around_others_is_not_missing)
{
    struct store_txn t;

    fix_open();
    store_hub(fix.store, true);
    add_events(1, 10);
    for (int seq = 1; seq <= 10; seq++) {
        store_txn_begin(&t, fix.store);
        if (seq != 4 && seq != 7)
            store_outbox_sent(&t, seq);
        commit(&t);
    }
    prune(1000, 1000);
    CHECK_INT(number("SELECT count(*) FROM events"), 2);
    CHECK_INT(number("SELECT count(*) FROM event_cuts"), 3);
    check_ledger();
    store_txn_begin(&t, fix.store);
    store_outbox_sent(&t, 4);
    commit(&t);
    prune(1000, 1000);
    CHECK_INT(number("SELECT count(*) FROM event_cuts"), 2);
    check_ledger();
    store_txn_begin(&t, fix.store);
    store_outbox_sent(&t, 7);
    commit(&t);
    prune(1000, 1000);
    CHECK_INT(number("SELECT count(*) FROM event_cuts"), 1);
    add_events(11, 1);
    check_ledger();
    fix_close();
}

TEST(a_change_that_is_refused_has_no_place_in_it)
{
    struct idempotency_record i = { .owner = "o", .key = "k", .sandbox = "s" };
    struct event_record v = event(1, "x");
    struct store_txn t;

    fix_open();
    for (int n = 0; n < 3; n++) {
        store_txn_begin(&t, fix.store);
        store_add_event(&t, &v);
        store_put_idempotency(&t, &i);
        CHECK_INT(try_commit(&t), n ? -ERR_CONFLICT : 0);
        add_events(n, 2);
        check_ledger();
    }
    CHECK_INT(number("SELECT max(seq) FROM events"), 7);
    fix_close();
}

TEST(damage_is_found_with_its_place)
{
    fix_open();
    add_events(1, 20);
    damage("UPDATE events SET reason = 'another' WHERE seq = 9");
    expect(LEDGER_CHANGED, 9);
    damage("UPDATE events SET reason = 'because' WHERE seq = 9");
    check_ledger();
    damage("UPDATE events SET actor_kind = 77 WHERE seq = 9"); /* cannot be read at all */
    expect(LEDGER_CHANGED, 9);
    damage("DELETE FROM events WHERE seq = 9");
    expect(LEDGER_MISSING, 9);
    damage("DELETE FROM events WHERE seq > 7");
    expect(LEDGER_SHORT, 8);
    damage("UPDATE ledger SET seq = 7");
    expect(LEDGER_HEAD_FORGED, 7);
    damage("DELETE FROM ledger");
    expect(LEDGER_HEAD_GONE, 0);
    fix_close();
}

TEST(a_row_that_others_inserted_holds_nothing_up)
{
    fix_open();
    add_events(1, 5);
    damage("INSERT INTO events (time_ns, type, sandbox, owner, from_state, to_state, actor_kind,"
           " actor, reason, detail) VALUES (1, 'x', '', '', -1, -1, 0, '', '', '')");
    expect(LEDGER_UNCHAINED, 6);
    add_events(7, 5);
    expect(LEDGER_UNCHAINED, 6);
    damage("DELETE FROM events WHERE seq = 6");
    expect(LEDGER_MISSING, 6);
    fix_close();
}

TEST(a_head_that_was_kept_shows_what_was_rewritten)
{
    struct ledger_walk before = { 0 }, w = { 0 };

    fix_open();
    add_events(1, 5);
    CHECK_INT(walk_ledger(&before), 0);
    add_events(6, 5);
    w.expect = before.head;
    CHECK_INT(walk_ledger(&w), 0);
    CHECK(w.expected);
    w = (struct ledger_walk){ .expect = before.head };
    w.expect.digest[0] ^= 1;
    CHECK_INT(walk_ledger(&w), 1);
    CHECK_INT(w.findings[0].fault, LEDGER_UNEXPECTED);
    w = (struct ledger_walk){ .expect = { .seq = 11 } };
    CHECK_INT(walk_ledger(&w), 1);
    CHECK_INT(w.findings[0].fault, LEDGER_OLDER);
    prune(6, 100); /* the cut has the digest of the last one that it removed */
    w = (struct ledger_walk){ .expect = before.head };
    CHECK_INT(walk_ledger(&w), 0);
    CHECK(w.expected);
    fix_close();
}

/* --- egress heads --- */

static struct egress_head_record put_head(uint64_t seq, uint64_t cut)
{
    struct store_query q = { .kind = STORE_EGRESS_HEADS,
                             .sandbox = STR("sbx_00000000000000000001") };
    struct egress_head_record h = { .sandbox = "sbx_00000000000000000001",
                                    .seq = seq,
                                    .digest = { (unsigned char)seq },
                                    .cut_seq = cut,
                                    .cut_digest = { (unsigned char)cut } };
    struct store_txn t;

    store_txn_begin(&t, fix.store);
    store_put_egress_head(&t, &h);
    commit(&t);
    ask(&q);
    CHECK_INT(q.n, 1);
    h = q.egress_heads[0];
    arena_done(&q.arena);
    CHECK(h.genuine);
    return h;
}

TEST(the_record_of_a_log_does_not_go_back)
{
    struct egress_head_record h;

    fix_open();
    put_sandboxes(1, 2, "o", SANDBOX_READY);
    h = put_head(5, 0);
    CHECK_INT(h.seq, 5);
    h = put_head(9, 4);
    CHECK(h.seq == 9 && h.cut_seq == 4 && h.cut_digest[0] == 4);
    h = put_head(12, 0);
    CHECK(h.seq == 12 && h.cut_seq == 4 && h.cut_digest[0] == 4);
    h = put_head(10, 0); /* a log that was cut */
    CHECK(h.seq == 12 && h.digest[0] == 12);
    damage("UPDATE egress_heads SET seq = 3");
    {
        struct store_query q = { .kind = STORE_EGRESS_HEADS, .limit = 10 };

        ask(&q);
        CHECK(q.n == 1 && !q.egress_heads[0].genuine);
        arena_done(&q.arena);
    }
    fix_close();
}

TEST(what_is_removed_with_a_sandbox_is_on_record)
{
    struct ledger_walk w = { 0 };
    struct store_txn t;

    fix_open();
    put_sandboxes(1, 2, "o", SANDBOX_DESTROYED);
    put_head(5, 0);
    store_txn_begin(&t, fix.store);
    store_prune(&t, INT64_C(100) * 1000000000, 0, 10);
    commit(&t);
    CHECK_INT(number("SELECT count(*) FROM egress_heads"), 0);
    CHECK_INT(walk_ledger(&w), 0);
    CHECK_INT(w.pruned_ns, INT64_C(100) * 1000000000);
    damage("UPDATE ledger SET pruned_ns = pruned_ns + 1");
    w = (struct ledger_walk){ 0 };
    CHECK(walk_ledger(&w) > 0);
    fix_close();
}

TEST(events_name_the_lines_of_egress_logs)
{
    struct event_record v = event(1, "audit.anchored");
    struct ledger_walk w = { 0 };
    struct store_query q = { .kind = STORE_LEDGER, .walk = &w, .limit = 100 };
    struct store_txn t;

    v.detail = STR("{\"egress_audit\":[{\"sandbox\":\"sbx_1\",\"seq\":7,\"digest\":\""
                   "0102030405060708091011121314151617181920212223242526272829303132\"},"
                   "{\"sandbox\":\"sbx_2\",\"seq\":-7,\"digest\":\"01\"},7]}");
    fix_open();
    store_txn_begin(&t, fix.store);
    store_add_event(&t, &v);
    commit(&t);
    ask(&q);
    CHECK_INT(q.n, 1);
    CHECK_STR(str_from(q.anchors[0].sandbox), "sbx_1");
    CHECK_INT(q.anchors[0].seq, 7);
    CHECK_INT(q.anchors[0].digest[31], 0x32);
    arena_done(&q.arena);
    fix_close();
}
