/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/quota/turns.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "harness/tap.h"

enum { MOST = 64 };

static struct loop loop;
static struct turns queue;
static struct err e;

struct one {
    struct turn turn;
    char name;
};

static struct one all[MOST];
static unsigned n_all;
static char started[MOST + 1]; /* names, in the order of their start */
static unsigned n_started;

static void open_turns(uint64_t total, uint64_t reserve, uint64_t share, uint64_t waits)
{
    struct quota_limits running = quota_token_limits(share), waiting = quota_token_limits(waits);

    running.total = total;
    running.reserve = reserve;
    CHECK_OK(loop_init(&loop, &e), e);
    turns_init(&queue, &loop);
    quota_init(&queue.running, &running, "copies", "limits.copies", "limits.copies_per_owner");
    quota_init(&queue.waiting, &waiting, "copies that wait", "", "limits.waits");
}

static void serve(void)
{
    CHECK_OK(loop_run_once(&loop, 0, &e), e);
}

static void on_start(struct turn *turn)
{
    started[n_started++] = container_of(turn, struct one, turn)->name;
}

static int join_as(char name, const char *key, const char *part, bool privileged, bool must)
{
    const struct quota_who who = { .key = str_from(key),
                                   .parts = { str_from(part) },
                                   .privileged = privileged };

    all[n_all].name = name;
    return turns_join(&queue, &all[n_all++].turn, &who, must, on_start, &e);
}

/* The names of callers are single letters; turns of one caller have one name. */
static void join_many(const char *names)
{
    for (; *names; names++)
        CHECK_OK(join_as(*names, (char[]){ *names, 0 }, "", false, false), e);
}

static void leave(char name)
{
    for (unsigned i = 0; i < n_all; i++)
        if (all[i].name == name && all[i].turn.place_.share) {
            turns_leave(&queue, &all[i].turn);
            return;
        }
    FAIL("no turn of %c runs", name);
}

static void check_started(const char *want)
{
    serve();
    CHECK_STR(str_from(started), want);
    memset(started, 0, sizeof started);
    n_started = 0;
}

static void close_turns(void)
{
    for (unsigned i = 0; i < n_all; i++)
        turns_leave(&queue, &all[i].turn);
    CHECK_INT(queue.running.used, 0);
    CHECK_INT(queue.waiting.used, 0);
    CHECK_INT(queue.running.shares_.n, 0);
    CHECK_INT(queue.waiting.shares_.n,
              0); /* who holds nothing and waits for nothing costs nothing */
    turns_done(&queue);
    loop_done(&loop);
}

TEST(a_turn_starts_from_the_loop_and_in_its_order)
{
    open_turns(2, 0, 2, 10);
    join_many("a");
    CHECK_INT(n_started, 0);
    CHECK(turn_waits(&all[0].turn));
    check_started("a");
    CHECK(!turn_waits(&all[0].turn));
    close_turns();
}

TEST(a_caller_with_many_turns_delays_no_other_caller)
{
    open_turns(8, 0, 2, 20);
    join_many("aaaaaaaaaa");
    check_started("aa");
    join_many("b");
    check_started("b");
    leave('b');
    check_started(""); /* a place is free, and a has its share */
    leave('a');
    check_started("a");
    close_turns();
}

TEST(callers_are_served_in_rotation_when_all_places_are_in_use)
{
    open_turns(3, 0, 3, 20);
    join_many("aaaaaabbbbc");
    check_started("abc");
    leave('a');
    check_started("a");
    leave('b');
    check_started("b");
    leave('c');
    check_started("a");
    leave('a');
    check_started("b");
    close_turns();
}

TEST(a_family_leaves_a_place_to_its_siblings_and_is_served_in_rotation)
{
    open_turns(20, 0, 8, 40); /* of which a family has seven */
    for (int i = 0; i < 10; i++)
        CHECK_OK(join_as('x', "a", "tok_x", false, false), e);
    check_started("xxxxxxx");
    CHECK_OK(join_as('y', "a", "tok_y", false, false), e);
    check_started("y");
    CHECK_OK(join_as('y', "a", "tok_y", false, false), e);
    CHECK_OK(join_as('u', "a", "", false, false), e);
    check_started("");
    leave('x'); /* x, y and the user wait for one place */
    check_started("y");
    leave('y');
    check_started("u");
    leave('u');
    check_started("x");
    close_turns();
}

TEST(privileged_callers_have_the_reserve_and_every_second_turn)
{
    open_turns(4, 1, 3, 20);
    join_many("aaabbb");
    check_started("aba");
    for (int i = 0; i < 3; i++)
        CHECK_OK(join_as('R', "root", "", true, false), e);
    check_started("R"); /* whatever others do */
    leave('a');
    check_started("R");
    leave('R');
    check_started("R");
    leave('a');
    leave('R');
    check_started("b");
    close_turns();
}

TEST(those_that_wait_are_bounded_unless_they_must_not_be_refused)
{
    open_turns(1, 0, 1, 2);
    join_many("a");
    check_started("a");
    join_many("aa");
    CHECK_INT(join_as('a', "a", "", false, false), -ERR_QUOTA);
    CHECK(strstr(e.msg, "2 of 2 copies that wait (limits.waits)"));
    CHECK(!turn_waits(&all[n_all - 1].turn));
    CHECK_OK(join_as('a', "a", "", false, true), e);
    CHECK_OK(join_as('b', "b", "", false, false), e); /* another caller is not at its limit */
    close_turns();
}

TEST(a_turn_that_leaves_while_it_waits_never_starts)
{
    open_turns(1, 0, 1, 10);
    join_many("abc");
    check_started("a");
    turns_leave(&queue, &all[1].turn);
    turns_leave(&queue, &all[1].turn); /* once more does nothing */
    leave('a');
    check_started("c");
    close_turns();
}

static void on_start_leave(struct turn *turn)
{
    on_start(turn);
    turns_leave(&queue, turn);
}

TEST(a_turn_may_leave_when_it_starts)
{
    const struct quota_who who = { .key = STR("a") };

    open_turns(1, 0, 1, 10);
    for (int i = 0; i < 5; i++) {
        all[n_all].name = 'a';
        CHECK_OK(turns_join(&queue, &all[n_all++].turn, &who, false, on_start_leave, &e), e);
    }
    for (int i = 0; i < 5; i++)
        serve();
    check_started("aaaaa");
    close_turns();
}

TEST(closing_forgets_what_waits)
{
    open_turns(1, 0, 1, 40);
    join_many("aabbcc");
    for (int i = 0; i < 10; i++)
        CHECK_OK(join_as('x', "x", "tok_x", false, false), e);
    check_started("a");
    turns_done(&queue);
    loop_done(&loop);
}

/* Whatever joins and leaves in whatever order: limits hold, no place stays free that a waiting turn
 * may have, and in the end nothing is left. */
TEST(no_place_stays_free_for_a_turn_that_may_have_it)
{
    static const char *const keys[] = { "a", "b", "c", "root" }, *const parts[] = { "", "1", "2" };

    open_turns(6, 1, 2, 1000);
    srandom(1);
    for (int i = 0; i < 20000; i++) {
        struct one *o = &all[random() % MOST];
        long k = random() % 4, p = random() % 3;
        char part[8] = { keys[k][0], parts[p][0], 0 };
        const struct quota_who who = { .key = str_from(keys[k]),
                                       .parts = { str_from(p && k < 3 ? part : "") },
                                       .privileged = k == 3 };

        if (o->turn.line_ || o->turn.place_.share)
            turns_leave(&queue, &o->turn);
        else
            CHECK_OK(turns_join(&queue, &o->turn, &who, random() % 2, on_start, &e), e);
        n_started = 0;
        serve();
        CHECK(queue.running.used <= 6);
        for (unsigned m = 0; m < MOST; m++) {
            const struct quota_hold *w = &all[m].turn.waits_;
            const struct quota_who waits = { .key = str_from(w->share ? w->share->key : ""),
                                             .parts = { str_from(
                                                 w->share && w->parts[0] ? w->parts[0]->key : "") },
                                             .privileged = w->privileged };

            if (w->share && quota_room(&queue.running, &waits) > 0)
                CHECK(queue.running.used >= (w->privileged ? 6 : 5));
        }
    }
    n_all = MOST;
    close_turns();
}
