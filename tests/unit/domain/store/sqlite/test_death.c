/* SPDX-License-Identifier: Apache-2.0 */
/* SIGKILL at any moment: a reported transaction is stored; others are stored completely or not at
 * all. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "fixture.h"

enum { ROUNDS = 60, AT_ONCE = 8 };

/* ---- the process that is killed: transactions number, number + 1, … each a sandbox with two
 * labels, two events and a process; reports the number of each completed one. */

struct change {
    struct store_txn txn;
    int number;
};
static struct change changes[AT_ONCE];
static int next, report;

static void on_done(struct store_txn *t, int r, const struct err *err);

static void start(struct change *c)
{
    static const struct json_pair labels[] = { { "a", "1" }, { "b", "2" } };
    struct sandbox_record b;
    struct event_record v;
    struct process_record p = { .proc = 1, .spec = STR("{}") };

    c->number = next++;
    b = sandbox(c->number);
    b.labels = (struct json_map){ labels, 2 };
    memcpy(p.sandbox, b.id, sizeof p.sandbox);
    store_txn_begin(&c->txn, fix.store);
    store_put_sandbox(&c->txn, &b);
    for (int i = 0; i < 2; i++) {
        v = event(c->number, "x");
        store_add_event(&c->txn, &v);
    }
    store_put_process(&c->txn, &p);
    if (c->number % 50 == 0)
        store_prune(&c->txn, 0, 0, 10);
    store_commit(&c->txn, on_done);
}

static void on_done(struct store_txn *t, int r, const struct err *err)
{
    struct change *c = container_of(t, struct change, txn);

    CHECK_OK(r, *err);
    CHECK(write(report, &c->number, sizeof c->number) == sizeof c->number);
    start(c);
}

static void live(int from, int to_parent)
{
    report = to_parent;
    next = from;
    fix_open();
    store_hub(fix.store, true);
    for (int i = 0; i < AT_ONCE; i++)
        start(&changes[i]);
    for (;;)
        turn();
}

/* ---- the one that looks */

static unsigned pick(unsigned n)
{
    static uint32_t state = 20231116;

    state = state * 1664525 + 1013904223;
    return (state >> 8) % n;
}

/* Lets it run for a while; returns the highest number that it has reported, or `last`. */
static int let_die(int from, int last)
{
    int fds[2], number;
    pid_t pid;

    CHECK(pipe(fds) == 0);
    CHECK((pid = fork()) >= 0);
    if (pid == 0) {
        close(fds[0]);
        live(from, fds[1]);
    }
    close(fds[1]);
    usleep(pick(40000));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (read(fds[0], &number, sizeof number) == sizeof number)
        last = number > last ? number : last;
    close(fds[0]);
    return last;
}

/* Everything up to `last` is there, and nothing by half. Returns the highest number there. */
static int look(int last)
{
    static const struct json_pair label[] = { { "b", "2" } };
    struct store_query q = { .kind = STORE_LIVE };
    size_t n;
    int highest;

    fix_open();
    ask(&q);
    n = q.n;
    highest = (int)n - 1;
    CHECK(highest >= last);
    for (size_t i = 0; i < n; i++) { /* newest first, none missing */
        char id[ID_MAX];

        snprintf(id, sizeof id, "sbx_%020d", highest - (int)i);
        CHECK_STR(str_from(q.sandboxes[i].id), id);
    }
    arena_done(&q.arena);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_SANDBOXES, .labels = { label, 1 } }), n);
    CHECK_INT(count_of((struct store_query){ .kind = STORE_EVENTS }), 2 * n);
    check_ledger();
    CHECK_INT(count_of((struct store_query){ .kind = STORE_OUTBOX }), 2 * n);
    for (int i = last + 1; i <= highest; i++) {
        char id[ID_MAX];

        snprintf(id, sizeof id, "sbx_%020d", i);
        CHECK_INT(
            count_of((struct store_query){ .kind = STORE_PROCESSES, .sandbox = str_from(id) }), 1);
    }
    fix_close();
    return highest;
}

TEST(nothing_that_was_reported_is_lost)
{
    int highest = -1, told = 0;

    fix_dir();
    for (int i = 0; i < ROUNDS; i++) {
        int last = let_die(highest + 1, highest);

        told += last - highest;
        highest = look(last);
    }
    CHECK(told > ROUNDS); /* else it died too early to say anything */
}
