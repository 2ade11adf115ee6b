/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"

/* A schema with a past. */
static const struct migration past[] = {
    { 1, "CREATE TABLE a (x INTEGER) STRICT; INSERT INTO a VALUES (1), (2)" },
    { 3, "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 7" },
    { 4, "CREATE TABLE b (z INTEGER) STRICT; INSERT INTO b SELECT x + y FROM a" },
};
static const struct migration broken[] = {
    { 1, "CREATE TABLE a (x INTEGER) STRICT" },
    { 2, "INSERT INTO a VALUES (5); CREATE TABLE a (x INTEGER)" },
};

static struct schema until(const struct migration *m, size_t n)
{
    return (struct schema){ m, n };
}

static int open_file(struct schema s, struct store_file *f, struct db *d)
{
    fix_dir();
    return store_file_open(f, fix.scratch.dir, &s, d, &e);
}

static void close_file(struct store_file *f, struct db *d)
{
    db_close(d);
    store_file_close(f);
}

static int64_t number(struct db *d, const char *sql)
{
    int64_t n = -1;

    CHECK_OK(db_number(d, sql, &n, &e), e);
    return n;
}

TEST(a_new_file_is_ours)
{
    struct store_file f;
    struct db d;

    CHECK_OK(open_file(until(past, 3), &f, &d), e);
    CHECK_INT(number(&d, "PRAGMA application_id"), SCHEMA_APPLICATION);
    CHECK_INT(number(&d, "PRAGMA user_version"), 4);
    CHECK_INT(number(&d, "PRAGMA foreign_keys"), 1);
    CHECK_INT(number(&d, "PRAGMA synchronous"), 1);
    CHECK_INT(number(&d, "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'"), 1);
    CHECK_INT(number(&d, "SELECT sum(z) FROM b"), 17);
    CHECK_INT(mode_of(fix.scratch.dir, "sandboxer.db"), 0600);
    close_file(&f, &d);
    CHECK(!exists(fix.scratch.dir, "sandboxer.db.new"));
}

TEST(an_old_file_is_upgraded_and_kept)
{
    struct store_file f;
    struct db d;

    CHECK_OK(open_file(until(past, 1), &f, &d), e);
    CHECK_OK(db_exec(&d, "INSERT INTO a VALUES (10)", &e), e);
    close_file(&f, &d);
    make_file(fix.scratch.dir, "sandboxer.db.new", "of one that died while it upgraded");
    make_file(fix.scratch.dir, "sandboxer.db.before-4", "of another time");
    CHECK_OK(open_file(until(past, 3), &f, &d), e);
    CHECK_INT(number(&d, "SELECT sum(z) FROM b"), 1 + 2 + 10 + 3 * 7);
    CHECK_INT(number(&d, "PRAGMA user_version"), 4);
    close_file(&f, &d);
    CHECK_OK(open_file(until(past, 3), &f, &d), e); /* once */
    CHECK_INT(number(&d, "SELECT count(*) FROM b"), 3);
    close_file(&f, &d);
    CHECK(shell("cd %s && mv sandboxer.db.before-4 sandboxer.db", fix.scratch.path));
    CHECK_OK(open_file(until(past, 1), &f, &d), e);
    CHECK_INT(number(&d, "SELECT sum(x) FROM a"), 13);
    close_file(&f, &d);
}

/* It did not end in order: the change is still in the log. */
TEST(an_old_file_is_upgraded_with_its_log)
{
    struct store_file f;
    struct db d;
    int status;
    pid_t pid;

    fix_dir();
    CHECK((pid = fork()) >= 0);
    if (pid == 0) {
        CHECK_OK(open_file(until(past, 1), &f, &d), e);
        CHECK_OK(db_exec(&d, "INSERT INTO a VALUES (10)", &e), e);
        raise(SIGKILL);
    }
    waitpid(pid, &status, 0);
    CHECK(exists(fix.scratch.dir, "sandboxer.db-wal"));
    CHECK_OK(open_file(until(past, 3), &f, &d), e);
    CHECK_INT(number(&d, "SELECT count(*) FROM b"), 3);
    close_file(&f, &d);
}

TEST(a_failed_upgrade_changes_nothing)
{
    struct store_file f;
    struct db d;

    CHECK_OK(open_file(until(broken, 1), &f, &d), e);
    close_file(&f, &d);
    CHECK_INT(open_file(until(broken, 2), &f, &d), -ERR_BUG);
    CHECK(strstr(e.msg, "migration 2"));
    CHECK_OK(open_file(until(broken, 1), &f, &d), e);
    CHECK_INT(number(&d, "SELECT count(*) FROM a"), 0);
    close_file(&f, &d);
}

/* ---- what is refused stays as it is: all files but the reserve, which holds no data */

static void refused(struct schema s, int code, const char *word)
{
    struct store_file f;
    struct db d;

    CHECK(shell("cd %s && rm -f sandboxer.db.lock sandboxer.db.reserve"
                " && sha256sum sandboxer.db* >before.sum",
                fix.scratch.path));
    CHECK_INT(open_file(s, &f, &d), -code);
    if (!strstr(e.msg, word))
        FAIL("the message does not say '%s': %s", word, e.msg);
    CHECK(shell("cd %s && rm -f sandboxer.db.lock sandboxer.db.reserve"
                " && sha256sum sandboxer.db* | cmp - before.sum",
                fix.scratch.path));
}

TEST(a_newer_file_is_refused)
{
    struct store_file f;
    struct db d;

    CHECK_OK(open_file(until(past, 3), &f, &d), e);
    close_file(&f, &d);
    refused(until(past, 1), ERR_UNSUPPORTED, "version 4");
}

TEST(somebody_elses_file_is_refused)
{
    fix_dir();
    make_file(fix.scratch.dir, "sandboxer.db", "");
    refused(until(past, 3), ERR_INVALID, "not a sandboxer store");
    make_file(fix.scratch.dir, "sandboxer.db", "SQLite format 3");
    refused(until(past, 3), ERR_INVALID, "not a sandboxer store");
    CHECK(shell("cd %s && head -c 50000 /dev/urandom >sandboxer.db", fix.scratch.path));
    refused(until(past, 3), ERR_INVALID, "not a sandboxer store");
    CHECK(shell("cd %s && rm sandboxer.db && python3 -c 'import sqlite3; c = sqlite3.connect("
                "\"sandboxer.db\"); c.execute(\"create table t (x)\"); c.commit()'",
                fix.scratch.path));
    refused(until(past, 3), ERR_INVALID, "not a sandboxer store");
}

TEST(what_is_no_file_is_refused)
{
    struct store_file f;
    struct db d;

    fix_dir();
    CHECK(mkdirat(fix.scratch.dir, "sandboxer.db", 0755) == 0);
    CHECK_INT(open_file(until(past, 3), &f, &d), -ERR_INVALID);
    CHECK(unlinkat(fix.scratch.dir, "sandboxer.db", AT_REMOVEDIR) == 0);
    CHECK(mkfifoat(fix.scratch.dir, "sandboxer.db", 0600) == 0);
    CHECK_INT(open_file(until(past, 3), &f, &d), -ERR_INVALID);
    CHECK(unlinkat(fix.scratch.dir, "sandboxer.db", 0) == 0);
    CHECK(symlinkat("elsewhere", fix.scratch.dir, "sandboxer.db") == 0);
    CHECK_INT(open_file(until(past, 3), &f, &d), -ERR_SYS);
    CHECK(!exists(fix.scratch.dir, "elsewhere"));
}

/* A store with some content, closed in order. */
static void fill(void)
{
    fix_open();
    put_sandboxes(0, 300, "one", SANDBOX_DESTROYED);
    fix_close();
}

static void damage(long long at)
{
    CHECK(shell("cd %s && cp good sandboxer.db && head -c 3000 /dev/urandom | "
                "dd of=sandboxer.db bs=1 seek=%lld conv=notrunc status=none",
                fix.scratch.path, at));
}

/* The page with the first occurrence of the text; 0 if absent. */
static long long page_of(const char *text)
{
    char line[64] = "0";
    char command[256];
    FILE *p;

    snprintf(command, sizeof command, "grep -abo %s %s/good | head -1", text, fix.scratch.path);
    CHECK((p = popen(command, "r")));
    CHECK(fgets(line, sizeof line, p));
    pclose(p);
    return strtoll(line, NULL, 10) / 4096 * 4096;
}

TEST(a_damaged_file_is_refused)
{
    fill();
    CHECK(shell("cd %s && cp sandboxer.db good", fix.scratch.path));
    damage(100); /* the schema */
    refused(store_schema, ERR_INVALID, "damaged");
    damage(page_of("sbx_00000000000000000100"));
    refused(store_schema, ERR_INVALID, "damaged");
    damage(page_of("python"));
    refused(store_schema, ERR_INVALID, "damaged");
    CHECK(
        shell("cd %s && cp good sandboxer.db && truncate -s 20480 sandboxer.db", fix.scratch.path));
    refused(store_schema, ERR_INVALID, "damaged");
    CHECK(shell("cd %s && cp good sandboxer.db", fix.scratch.path));
    fix_open();
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), 300);
    fix_close();
}

/* Too large to check every page: the first ones of each table and index are. */
TEST(a_large_damaged_file_is_refused)
{
    static const char *const roots[] = { "sandboxes", "sandboxes_page", "sandboxes_old", "tags",
                                         "events" };
    struct store_txn t;
    struct event_record v = event(1, "x");
    static char big[1 << 20];

    fix_open();
    put_sandboxes(0, 10, "one", SANDBOX_DESTROYED);
    memset(big, 'x', sizeof big);
    v.detail = (struct str){ big, sizeof big };
    for (int i = 0; i < 40; i++) {
        store_txn_begin(&t, fix.store);
        store_add_event(&t, &v);
        commit(&t);
    }
    fix_close();
    CHECK(shell("cd %s && cp sandboxer.db good && test $(stat -c %%s good) -gt %d",
                fix.scratch.path, STORE_FILE_CHECK_MAX));
    for (size_t i = 0; i < COUNT_OF(roots); i++) {
        sqlite3 *h;
        sqlite3_stmt *st;
        char path[128];

        CHECK(shell("cd %s && cp good sandboxer.db", fix.scratch.path));
        snprintf(path, sizeof path, "%s/good", fix.scratch.path);
        CHECK_INT(sqlite3_open(path, &h), SQLITE_OK);
        CHECK_INT(sqlite3_prepare_v2(h, "SELECT rootpage FROM sqlite_schema WHERE name = ?1", -1,
                                     &st, NULL),
                  SQLITE_OK);
        sqlite3_bind_text(st, 1, roots[i], -1, SQLITE_STATIC);
        CHECK_INT(sqlite3_step(st), SQLITE_ROW);
        damage((sqlite3_column_int64(st, 0) - 1) * 4096);
        sqlite3_finalize(st);
        sqlite3_close(h);
        refused(store_schema, ERR_INVALID, "damaged");
    }
}

/* ---- one daemon at a time */

/* Another process with the store open, until it is killed. */
static pid_t holder(void)
{
    int fds[2];
    char ready;
    pid_t pid;

    CHECK(pipe(fds) == 0);
    CHECK((pid = fork()) >= 0);
    if (pid == 0) {
        fix_open();
        CHECK(write(fds[1], "x", 1) == 1);
        for (;;)
            pause();
    }
    CHECK(read(fds[0], &ready, 1) == 1);
    return pid;
}

TEST(a_second_daemon_is_told_who_has_it)
{
    struct store *s;
    char word[32];
    pid_t pid;

    fix_dir();
    pid = holder();
    CHECK_OK(loop_init(&fix.loop, &e), e);
    CHECK_OK(thread_pool_init(&fix.pool, &fix.loop, 1, 10, &e), e);
    CHECK_INT(store_open(fix.scratch.dir, &fix.loop, &fix.pool, &s, &e), -ERR_BUSY);
    snprintf(word, sizeof word, "process %d;", (int)pid);
    CHECK(strstr(e.msg, word));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK_OK(store_open(fix.scratch.dir, &fix.loop, &fix.pool, &s, &e), e);
    store_close(s);
    thread_pool_done(&fix.pool);
    loop_done(&fix.loop);
}

/* Children of the dead daemon hold none of its locks. */
TEST(children_of_a_dead_daemon_do_not_hold_it)
{
    int fds[2];
    pid_t pid, child;

    fix_dir();
    CHECK(pipe(fds) == 0);
    CHECK((pid = fork()) >= 0);
    if (pid == 0) {
        fix_open();
        child = fork();
        if (child == 0)
            for (;;)
                pause();
        CHECK(write(fds[1], &child, sizeof child) == sizeof child);
        raise(SIGKILL);
    }
    CHECK(read(fds[0], &child, sizeof child) == sizeof child);
    waitpid(pid, NULL, 0);
    fix_open();
    put_sandboxes(0, 3, "one", SANDBOX_READY);
    fix_close();
    kill(child, SIGKILL);
}

TEST(a_path_may_be_longer_than_sqlite_takes)
{
    struct schema newest = until(past, 3);
    struct store_file f;
    struct db d;
    char name[201];
    int dir;

    memset(name, 'd', 200);
    name[200] = '\0';
    fix_dir();
    dir = fix.scratch.dir;
    for (int i = 0; i < 3; i++)
        dir = make_dir(dir, name);
    CHECK_OK(store_file_open(&f, dir, &newest, &d, &e), e);
    CHECK_INT(number(&d, "SELECT count(*) FROM a"), 2);
    close_file(&f, &d);
}
