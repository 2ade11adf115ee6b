/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that is full or broken, at every single call: an error, nothing by half, and then on. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "faulty.h"
#include "fixture.h"
#include "domain/store/sqlite/internal.h"

enum { BATCH = 5, ROUNDS = 3 };

struct change {
    struct store_txn txn;
    int result;
};
static struct change changes[BATCH];
static int done_count, committed;

static void on_done(struct store_txn *t, int r, const struct err *err)
{
    struct change *c = container_of(t, struct change, txn);

    c->result = r;
    if (db_is_disk_error(r))
        CHECK(err->msg[0] != 0);
    done_count++;
}

static void start(struct change *c, int number)
{
    static const struct json_pair labels[] = { { "a", "1" } };
    static char big[9000]; /* pages of its own */
    struct sandbox_record b = sandbox(number);
    struct event_record v = event(number, "x");

    memset(big, 'x', sizeof big);
    b.state = SANDBOX_DESTROYED; /* so that it can be pruned */
    b.labels = (struct json_map){ labels, 1 };
    v.detail = (struct str){ big, sizeof big };
    store_txn_begin(&c->txn, fix.store);
    store_put_sandbox(&c->txn, &b);
    store_add_event(&c->txn, &v);
    store_commit(&c->txn, on_done);
}

/* Commits ROUNDS × BATCH sandboxes from `from` on and counts those that are said to be there. */
static int scenario(int from)
{
    int good = 0;

    for (int round = 0; round < ROUNDS; round++) {
        done_count = 0;
        for (int i = 0; i < BATCH; i++)
            start(&changes[i], from + round * BATCH + i);
        while (done_count < BATCH)
            turn();
        for (int i = 0; i < BATCH; i++) {
            int r = changes[i].result;

            if (r != 0 && !db_is_disk_error(r))
                FAIL("a failing disk gives %d", r);
            good += r == 0;
        }
    }
    return good;
}

/* Sandboxes, labels and events agree with what was said. */
static void check_whole(int n)
{
    static const struct json_pair label[] = { { "a", "1" } };

    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), n);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES, .labels = { label, 1 } }), n);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_EVENTS }), n);
    check_ledger();
}

/* Keeps the test short. */
static void prune_all(void)
{
    struct store_txn t;

    store_txn_begin(&t, fix.store);
    store_prune(&t, INT64_MAX, INT64_MAX, 10000);
    commit(&t);
    committed = 0;
    check_whole(0);
}

/* The first call fails, then the second, until the scenario ends before its turn comes. */
static void every_call(enum fault f, int times)
{
    int from = 0, n = 0;

    faulty_install();
    fix_open();
    do {
        faulty_arm(f, ++n, times);
        committed = scenario(from);
        times = faulty_failed() ? times : 0;
        faulty_arm(FAULT_NONE, 0, 0);
        check_whole(committed);
        from += BATCH * ROUNDS;
        committed += scenario(from);
        check_whole(committed);
        from += BATCH * ROUNDS;
        prune_all();
    } while (times);
    CHECK(n > 50);
    committed = scenario(0);
    fix_close();
    fix_open();
    check_whole(committed);
    fix_close();
}

TEST(a_full_disk_at_every_call)
{
    every_call(FAULT_FULL, 1);
}

TEST(a_disk_that_stays_full)
{
    every_call(FAULT_FULL, 1000000);
}

TEST(a_broken_disk_at_every_call)
{
    every_call(FAULT_IO, 1);
}

/* Commits until the log has so many pages. */
static int fill_log(int from, int pages)
{
    int before = from;

    while (fix.store->log_pages < pages && from - before < 20000) {
        committed += scenario(from);
        from += BATCH * ROUNDS;
    }
    return from;
}

/* A log that cannot be written back is no reason to refuse a commit: it is whole by itself. */
TEST(the_log_cannot_be_written_back)
{
    int from = 0;

    faulty_install();
    fix_open();
    faulty_arm_database(FAULT_FULL, 1, 1000000);
    from = fill_log(from, STORE_LOG_PAGES_MAX * 2); /* by the maintenance slot, then by commits */
    CHECK(faulty_failed() > 2);
    CHECK_INT(committed, from);
    check_whole(committed);
    fix_close(); /* and at the end */
    faulty_arm(FAULT_NONE, 0, 0);
    fix_open();
    check_whole(committed);
    while (fix.store->log_pages >= STORE_LOG_PAGES || fix.store->log_pages == 0) {
        committed += scenario(from);
        from += BATCH * ROUNDS;
    }
    check_whole(committed);
    fix_close();
}

TEST(faults_while_the_log_is_written_back)
{
    int from = 0;

    faulty_install();
    fix_open();
    for (int n = 1; n < 40; n += 3) {
        faulty_arm_database(n % 2 ? FAULT_FULL : FAULT_IO, n, 1);
        while (!faulty_failed()) {
            committed += scenario(from);
            from += BATCH * ROUNDS;
        }
        CHECK_INT(committed, from);
    }
    faulty_arm(FAULT_NONE, 0, 0);
    check_whole(committed);
    fix_close();
    fix_open();
    check_whole(committed);
    fix_close();
}

/* A WAL that cannot be started accepts no commits. A started one does: commits do not wait for the
 * disk. Checkpoints do, and without them the WAL stays. */
static void nothing_syncs(enum fault f)
{
    int from = BATCH * ROUNDS;

    faulty_install();
    fix_open(); /* the first opening begins the chain of events, and a log for that */
    fix_close();
    fix_open();
    faulty_arm_sync(f, 1, 1000000);
    CHECK_INT(scenario(0), 0);
    check_whole(0);
    faulty_arm(FAULT_NONE, 0, 0);
    committed = scenario(0);
    CHECK_INT(committed, from);
    faulty_arm_sync(f, 1, 1000000);
    from = fill_log(from, STORE_LOG_PAGES_MAX * 2);
    CHECK(faulty_failed() > 2);
    CHECK_INT(committed, from);
    check_whole(committed);
    fix_close();
    faulty_arm(FAULT_NONE, 0, 0);
    fix_open();
    check_whole(committed);
    while (fix.store->log_pages >= STORE_LOG_PAGES || fix.store->log_pages == 0) {
        committed += scenario(from);
        from += BATCH * ROUNDS;
    }
    CHECK_INT(committed, from);
    check_whole(committed);
    fix_close();
}

TEST(a_disk_that_cannot_sync)
{
    nothing_syncs(FAULT_IO);
}

TEST(a_disk_that_finds_out_late_that_it_is_full)
{
    nothing_syncs(FAULT_FULL);
}

/* The log's, the database's, and those of a log that is begun anew. */
TEST(every_sync_fails_once)
{
    int from = 0;

    faulty_install();
    fix_open();
    for (int n = 1; n <= 6; n++) {
        faulty_arm_sync(n % 2 ? FAULT_IO : FAULT_FULL, n, 1);
        while (!faulty_failed()) {
            committed += scenario(from);
            from += BATCH * ROUNDS;
        }
        faulty_arm(FAULT_NONE, 0, 0);
        check_whole(committed);
        fix_close();
        fix_open();
        check_whole(committed);
    }
    CHECK(committed >= from - 2 * BATCH * 6); /* a commit that begins the log anew may fail */
    fix_close();
}

/* At the end, when the last connection writes it back. */
TEST(faults_in_closing)
{
    int from = 0;

    faulty_install();
    for (int n = 1; n < 30; n++) {
        fix_open();
        committed += scenario(from);
        from += BATCH * ROUNDS;
        faulty_arm(n % 2 ? FAULT_FULL : FAULT_IO, n, 3);
        fix_close();
        CHECK(faulty_failed() > 0);
        faulty_arm(FAULT_NONE, 0, 0);
        fix_open();
        check_whole(committed);
        fix_close();
    }
}

/* Opening and making: refused with an error, and the next time it works. */
TEST(faults_in_opening)
{
    int calls;

    faulty_install();
    fix_open();
    committed = scenario(0);
    fix_close();
    CHECK_OK(loop_init(&fix.loop, &e), e);
    CHECK_OK(thread_pool_init(&fix.pool, &fix.loop, 2, 10, &e), e);
    for (int fresh = 0; fresh < 2; fresh++) {
        calls = 1;
        for (int n = 1; n <= calls; n++) {
            int r;

            if (fresh)
                CHECK(shell("rm -f %s/sandboxer.db*", fix.scratch.path));
            faulty_arm(n % 2 ? FAULT_FULL : FAULT_IO, n, 1);
            r = store_open(fix.scratch.dir, &fix.loop, &fix.pool, &fix.store, &e);
            calls = faulty_failed() ? calls + 1 : n - 1;
            if (r < 0)
                CHECK(db_is_disk_error(r) && e.msg[0]);
            faulty_arm(FAULT_NONE, 0, 0);
            if (r < 0)
                CHECK_OK(store_open(fix.scratch.dir, &fix.loop, &fix.pool, &fix.store, &e), e);
            check_whole(fresh ? 0 : committed);
            store_close(fix.store);
        }
        CHECK(calls > 3);
    }
    thread_pool_done(&fix.pool);
    loop_done(&fix.loop);
}

TEST(faults_in_a_backup)
{
    int bad = 0;

    faulty_install();
    fix_open();
    committed = scenario(0);
    for (int n = 1; n < 60; n++) {
        struct store_query q = { .kind = STORE_BACKUP };
        int r;

        q.fd = openat(fix.scratch.dir, "backup", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        faulty_arm(n % 2 ? FAULT_FULL : FAULT_IO, n, 1);
        r = store_ask_now(fix.store, &q, &e);
        CHECK(r == 0 || db_is_disk_error(r));
        CHECK_INT(r<0, faulty_failed()> 0);
        bad += r < 0;
        faulty_arm(FAULT_NONE, 0, 0);
        close(q.fd);
        CHECK(!exists(fix.scratch.dir, "sandboxer.db.copy"));
    }
    CHECK(bad > 10);
    check_whole(committed);
    fix_close();
}

/* ---- what is forced to disk */

static struct snapshot_record snapshot(const char *layers)
{
    return (struct snapshot_record){ .id = "snap_one",
                                     .owner = "tok_owner",
                                     .layers = str_from(layers) };
}

static void put_sandbox(struct store_txn *t)
{
    static int n = 100; /* a change without effect is not written */
    struct sandbox_record b = sandbox(n++);

    store_put_sandbox(t, &b);
}

static void put_durable(struct store_txn *t)
{
    put_sandbox(t);
    t->durable = true;
}

static void put_snapshot(struct store_txn *t)
{
    struct snapshot_record r = snapshot("lay_1 lay_2");

    store_put_snapshot(t, &r);
}

static void set_layers(struct store_txn *t)
{
    store_set_snapshot_layers(t, "snap_one", "lay_3");
}

static void remove_snapshot(struct store_txn *t)
{
    store_remove_snapshot(t, "snap_one");
}

static void put_image(struct store_txn *t)
{
    struct image_record r = { .ref = "one", .layers = STR("sha256-1"), .config = STR("{}") };

    store_put_image(t, &r);
}

static void remove_image(struct store_txn *t)
{
    store_remove_image(t, "one");
}

static void put_layer(struct store_txn *t)
{
    struct layer_record r = { .name = "sha256-1" };

    store_put_layer(t, &r);
}

static void remove_layer(struct store_txn *t)
{
    store_remove_layer(t, "sha256-1");
}

static const struct {
    const char *name;
    void (*put)(struct store_txn *t);
    bool forced;
} kinds[] = {
    { "a sandbox", put_sandbox, false },       { "one that must be", put_durable, true },
    { "a snapshot", put_snapshot, true },      { "its new layers", set_layers, true },
    { "its end", remove_snapshot, true },      { "an image", put_image, true },
    { "its end", remove_image, true },         { "a layer", put_layer, true },
    { "its end", remove_layer, true },         { "what was committed before", store_force, true },
    { "a sandbox again", put_sandbox, false },
};

static void begin_kind(struct store_txn *t, size_t i)
{
    store_txn_begin(t, fix.store);
    kinds[i].put(t);
}

TEST(only_what_must_outlive_the_power_waits_for_the_disk)
{
    struct store_txn t;

    faulty_install();
    fix_open();
    put_sandboxes(0, 5, "one", SANDBOX_READY); /* the log has begun */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        begin_kind(&t, i);
        faulty_arm_sync(FAULT_NONE, 0, 0);
        commit(&t);
        if ((faulty_calls() > 0) != kinds[i].forced)
            FAIL("%s: the disk was waited for %d times", kinds[i].name, faulty_calls());
    }
    faulty_arm_sync(FAULT_NONE, 0, 0);
    fix_close();
    faulty_arm_sync(FAULT_NONE, 0, 0);
    fix_open(); /* the stored state is acted upon */
    CHECK(faulty_calls() > 0);
    fix_close();
}

TEST(what_cannot_be_forced_did_not_happen)
{
    struct store_txn t;

    faulty_install();
    fix_open();
    put_sandboxes(0, 5, "one", SANDBOX_READY);
    for (int full = 0; full < 2; full++) {
        begin_kind(&t, 2);
        faulty_arm_sync(full ? FAULT_FULL : FAULT_IO, 1, full ? 1000 : 1);
        CHECK_INT(try_commit(&t), full ? -ERR_FULL : -ERR_SYS);
        CHECK(faulty_failed() >= 1);
        faulty_arm(FAULT_NONE, 0, 0);
        CHECK_INT(count_of((struct store_query){ .kind = STORE_SNAPSHOTS }), 0);
    }
    begin_kind(&t, 2);
    commit(&t);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SNAPSHOTS }), 1);
    fix_close();
}

/* Each try has room that the reserve gave up. */
TEST(a_full_disk_has_a_reserve_for_commits)
{
    struct store_txn t;

    faulty_install();
    fix_open();
    CHECK_INT(fix.store->reserve.size, fix.store->reserve.wanted);
    put_sandboxes(0, 5, "one", SANDBOX_READY);
    begin_kind(&t, 2);
    faulty_arm(FAULT_FULL, 1, 2);
    CHECK_INT(try_commit(&t), 0);
    CHECK(faulty_failed() >= 1);
    faulty_arm(FAULT_NONE, 0, 0);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SNAPSHOTS }), 1);
    CHECK_INT(store_check_room(fix.store, NULL), 0); /* the disk itself has room */
    fix_close();
}
