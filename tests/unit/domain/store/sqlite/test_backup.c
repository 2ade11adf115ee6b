/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/store/sqlite/backup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/own.h"
#include "fixture.h"

/* The backup opens as a store of its own, with `n` sandboxes. */
static void check_backup(int fd, size_t n)
{
    struct scratch s = scratch_make();
    struct store_query q = { .kind = STORE_SANDBOXES };
    struct store *copy;
    AUTO_CLOSE int file = openat(s.dir, "sandboxer.db", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    off_t size = lseek(fd, 0, SEEK_END);

    CHECK(file >= 0 && size > 0 && lseek(fd, 0, SEEK_SET) == 0);
    CHECK(copy_file_range(fd, NULL, file, NULL, (size_t)size, 0) == size);
    CHECK_OK(store_open(s.dir, &fix.loop, &fix.pool, &copy, &e), e);
    CHECK_OK(store_ask_now(copy, &q, &e), e);
    CHECK_INT(q.n, n);
    arena_done(&q.arena);
    store_close(copy);
}

static int backup_file(void)
{
    int fd = openat(fix.scratch.dir, "backup", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    return fd;
}

static int answers, result;

static void on_answer(struct store_query *q, int r, const struct err *err)
{
    e = *err;
    result = r;
    answers++;
}

TEST(a_backup_is_a_store)
{
    struct store_query q = { .kind = STORE_BACKUP };

    fix_open();
    put_sandboxes(0, 50, "one", SANDBOX_READY);
    q.fd = backup_file();
    ask(&q);
    check_backup(q.fd, 50);
    close(q.fd);
    q.fd = backup_file();
    CHECK_OK(store_ask_now(fix.store, &q, &e), e);
    check_backup(q.fd, 50);
    close(q.fd);
    CHECK(!exists(fix.scratch.dir, "sandboxer.db.copy"));
    fix_close();
}

/* It is of one moment, however long it takes, and does not keep others from going on. */
TEST(commits_go_on_during_a_backup)
{
    struct store_query q = { .kind = STORE_BACKUP };
    int n = 1000;

    fix_open();
    for (int i = 0; i < 10; i++)
        put_sandboxes(100 * i, 100 * i + 100, "one", SANDBOX_DESTROYED);
    q.fd = backup_file();
    CHECK_OK(store_ask(fix.store, &q, on_answer, &e), e);
    while (!answers) {
        put_sandboxes(n, n + 1, "one", SANDBOX_READY);
        n++;
    }
    CHECK_OK(result, e);
    CHECK(n > 1001);
    {
        struct scratch s = scratch_make();
        struct store_query all = { .kind = STORE_SANDBOXES };
        struct store *copy;
        size_t found;

        CHECK(shell("cp %s/backup %s/sandboxer.db", fix.scratch.path, s.path));
        CHECK_OK(store_open(s.dir, &fix.loop, &fix.pool, &copy, &e), e);
        CHECK_OK(store_ask_now(copy, &all, &e), e);
        found = all.n;
        CHECK(found >= 1000 && found <= (size_t)n);
        for (size_t i = 0; i < found; i++) { /* the first ones, without a gap */
            char id[ID_MAX];

            snprintf(id, sizeof id, "sbx_%020d", (int)(found - 1 - i));
            CHECK_STR(str_from(all.sandboxes[i].id), id);
        }
        arena_done(&all.arena);
        store_close(copy);
    }
    close(q.fd);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES }), n);
    fix_close();
}

TEST(several_backups_wait_for_each_other)
{
    struct store_query q[3];

    fix_open();
    put_sandboxes(0, 20, "one", SANDBOX_READY);
    for (int i = 0; i < 3; i++) {
        q[i] = (struct store_query){ .kind = STORE_BACKUP, .fd = memfd_create("b", MFD_CLOEXEC) };
        CHECK_OK(store_ask(fix.store, &q[i], on_answer, &e), e);
    }
    fix_close(); /* finishes them */
    CHECK_INT(answers, 3);
    CHECK_OK(result, e);
    fix_open();
    for (int i = 0; i < 3; i++) {
        AUTO_CLOSE int fd = backup_file();
        off_t size = lseek(q[i].fd, 0, SEEK_END), at = 0;

        while (at < size) {
            char page[4096];

            CHECK(pread(q[i].fd, page, sizeof page, at) == sizeof page);
            CHECK(write(fd, page, sizeof page) == sizeof page);
            at += (off_t)sizeof page;
        }
        check_backup(fd, 20);
    }
    fix_close();
}

TEST(a_backup_that_cannot_be_written_is_an_error)
{
    struct store_query q = { .kind = STORE_BACKUP, .fd = open("/dev/full", O_WRONLY | O_CLOEXEC) };

    fix_open();
    CHECK_OK(store_ask(fix.store, &q, on_answer, &e), e);
    while (!answers)
        turn();
    CHECK_INT(result, -ERR_SYS);
    CHECK_INT(e.sys, ENOSPC);
    q.fd = -1;
    CHECK_INT(store_ask_now(fix.store, &q, &e), -ERR_SYS);
    put_sandboxes(0, 5, "one", SANDBOX_READY);
    q.fd = backup_file();
    ask(&q);
    check_backup(q.fd, 5);
    fix_close();
}
