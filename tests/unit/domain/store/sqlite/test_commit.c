/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "fixture.h"
#include "domain/store/sqlite/internal.h"

enum { MANY = 300 };

struct change {
    struct store_txn txn;
    int result, turn;
    int64_t seq;
};
static struct change changes[MANY];
static int turns;

static void on_done(struct store_txn *t, int r, const struct err *err)
{
    struct change *c = container_of(t, struct change, txn);

    c->result = r;
    c->turn = turns++;
    c->seq = t->first_seq;
}

/* A sandbox, an event and a key: every tenth has the same key. */
static void start(int i)
{
    struct idempotency_record key = { .owner = "one" };
    struct sandbox_record b = sandbox(i);
    struct event_record v = event(i, "x");

    snprintf(key.key, sizeof key.key, "%d", i % 10 == 0 ? 0 : i);
    store_txn_begin(&changes[i].txn, fix.store);
    store_put_sandbox(&changes[i].txn, &b);
    store_add_event(&changes[i].txn, &v);
    store_put_idempotency(&changes[i].txn, &key);
    store_commit(&changes[i].txn, on_done);
}

static void start_all(void)
{
    turns = 0;
    for (int i = 0; i < MANY; i++)
        start(i);
}

static void wait_all(void)
{
    while (turns < MANY)
        turn();
}

TEST(one_that_is_refused_takes_no_other_with_it)
{
    int64_t last = 0;

    fix_open();
    start_all();
    wait_all();
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(changes[i].turn, i);
        if (i % 10 == 0 && i > 0) {
            CHECK_INT(changes[i].result, -ERR_CONFLICT);
            CHECK_INT(changes[i].seq, 0);
        } else {
            CHECK_INT(changes[i].result, 0);
            CHECK_INT(changes[i].seq, ++last);
        }
    }
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), MANY * 9 / 10 + 1);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_EVENTS }), MANY * 9 / 10 + 1);
    fix_close();
}

/* ---- locked by another connection */

static sqlite3 *locker;

static void lock(const char *how)
{
    char path[128];

    snprintf(path, sizeof path, "%s/sandboxer.db", fix.scratch.path);
    /* Another VFS would release the store's lock when it closes the file. */
    CHECK_INT(sqlite3_open_v2(path, &locker, SQLITE_OPEN_READWRITE, VFS_NAME), SQLITE_OK);
    CHECK_INT(sqlite3_exec(locker, how, NULL, NULL, NULL), SQLITE_OK);
}

TEST(a_locked_store_fails_all_and_recovers)
{
    fix_open();
    sqlite3_busy_timeout(fix.store->writer.db.h, 50); /* so that the test is short */
    lock("BEGIN EXCLUSIVE");
    start_all();
    wait_all();
    for (int i = 0; i < MANY; i++)
        CHECK_INT(changes[i].result, -ERR_BUSY);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), 0); /* reads continue */
    CHECK_INT(sqlite3_exec(locker, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    start_all();
    wait_all();
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), MANY * 9 / 10 + 1);
    sqlite3_close(locker);
    fix_close();
}

static void *unlock_soon(void *arg)
{
    usleep(100000);
    CHECK_INT(sqlite3_exec(locker, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    return NULL;
}

TEST(a_short_lock_is_waited_for)
{
    pthread_t t;

    fix_open();
    lock("BEGIN EXCLUSIVE");
    CHECK(pthread_create(&t, NULL, unlock_soon, NULL) == 0);
    start_all();
    wait_all();
    CHECK_INT(changes[1].result, 0);
    pthread_join(t, NULL);
    sqlite3_close(locker);
    fix_close();
}

/* ---- the log */

static off_t log_size(void)
{
    struct stat st;

    CHECK(fstatat(fix.scratch.dir, "sandboxer.db-wal", &st, 0) == 0);
    return st.st_size;
}

static void write_much(int rounds)
{
    static char big[64 << 10];

    memset(big, 'x', sizeof big);
    for (int i = 0; i < rounds; i++) {
        struct event_record v = event(i, "x");
        struct store_txn t;

        v.detail = (struct str){ big, sizeof big };
        store_txn_begin(&t, fix.store);
        store_add_event(&t, &v);
        commit(&t);
    }
}

TEST(the_log_is_bounded)
{
    fix_open();
    write_much(2000); /* 128 MB */
    CHECK(log_size() < (STORE_LOG_PAGES_MAX * 3 / 2) * INT64_C(4096));
    fix_close();
}

TEST(a_reader_that_stays_only_delays_that)
{
    fix_open();
    lock("BEGIN; SELECT * FROM settings"); /* an old view of the store */
    write_much(700);
    CHECK(log_size() > STORE_LOG_PAGES_MAX * INT64_C(4096));
    sqlite3_close(locker);
    write_much(700);
    CHECK(log_size() < (STORE_LOG_PAGES_MAX * 2) * INT64_C(4096));
    fix_close();
}

/* ---- dying */

TEST(a_test_can_let_it_die_around_a_commit)
{
    static const struct {
        const char *wish;
        size_t left;
    } cases[] = { /* the first commit begins the chain of events */
                  { "store.commit.before:4", 2 },
                  { "store.commit.after:4", 3 }
    };

    if (!SANDBOXER_TEST_HOOKS)
        SKIP("built without test hooks");
    fix_dir();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int status;
        pid_t pid = fork();

        CHECK(pid >= 0);
        if (pid == 0) {
            setenv("SANDBOXER_DIE_AT", cases[i].wish, 1);
            fix_open();
            for (int n = 0; n < 5; n++)
                put_sandboxes(n, n + 1, "one", SANDBOX_READY);
            _exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        fix_open();
        CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), cases[i].left);
        fix_close();
        CHECK(unlinkat(fix.scratch.dir, "sandboxer.db", 0) == 0);
    }
}
