/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/clock.h"
#include "control/owner/tokens.h"
#include "unit/control/fixture.h"

static int ends, last;

static void on_done(struct token_op *op, int r, const struct err *why)
{
    if (why)
        e = *why;
    last = r;
    ends++;
}

static int wait_end(int before)
{
    WAIT_FOR(ends > before);
    return last;
}

static struct token_op make(struct tokens *t, const char *owner)
{
    static struct json_pair labels[] = { { "team", "x" } };
    struct token_op op = { .record = { .name = "ci",
                                       .actor = ACTOR_AGT,
                                       .verbs = VERB_BIT(VERB_READ),
                                       .labels = { labels, 1 } },
                           .done = on_done };
    int before = ends;

    CHECK(str_copy(str_from(owner), op.record.owner, sizeof op.record.owner));
    tokens_create(t, &fix.caller.actor, &op);
    CHECK_INT(ends, before);
    CHECK_OK(wait_end(before), e);
    return op;
}

static int end_token(struct tokens *t, const char *id, const char *owner)
{
    struct token_op op = { .done = on_done };
    struct caller who = { .admin = !owner[0] };
    int before = ends;

    CHECK(str_copy(str_from(id), op.record.id, sizeof op.record.id));
    CHECK(str_copy(str_from(owner), who.owner, sizeof who.owner));
    tokens_revoke(t, &who, &op);
    CHECK_INT(ends, before);
    return wait_end(before);
}

static void count(void *user, const struct token_record *r)
{
    ++*(int *)user;
}

static int how_many(struct tokens *t)
{
    int n = 0;

    tokens_each(t, count, &n);
    return n;
}

TEST(a_secret_finds_its_token_after_a_restart_too)
{
    struct tokens *t;
    struct token_op op;
    const struct token_record *r;

    plane_open();
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    op = make(t, "uid:7");
    CHECK(str_starts(str_from(op.secret), STR("sbt_")));
    CHECK(strlen(op.secret) >= 36);
    for (int round = 0; round < 2; round++) {
        r = tokens_find(t, str_from(op.secret));
        CHECK(r);
        CHECK_STR(str_from(r->id), op.record.id);
        CHECK_STR(str_from(r->owner), "uid:7");
        CHECK_INT(r->labels.n, 1);
        CHECK_STR(str_from(r->labels.p[0].value), "x");
        CHECK(!tokens_find(t, STR("sbt_0000000000000000000000000000000000000000")));
        CHECK(!tokens_find(t, STR("")));
        tokens_close(t);
        plane_close();
        plane_open();
        CHECK_OK(tokens_open(fix.control, &t, &e), e);
    }
    CHECK_INT(count_events("token.created"), 1);
    tokens_close(t);
    plane_close();
}

TEST(a_revoked_token_is_good_for_nothing_and_revoking_again_is_fine)
{
    struct tokens *t;
    struct token_op op;

    plane_open();
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    op = make(t, "uid:7");
    make(t, "uid:8");
    CHECK_INT(how_many(t), 2);
    CHECK_INT(end_token(t, op.record.id, "uid:8"), -ERR_NOT_FOUND);
    CHECK(tokens_find(t, str_from(op.secret)));
    CHECK_INT(end_token(t, op.record.id, "uid:7"), 0);
    CHECK(!tokens_find(t, str_from(op.secret)));
    CHECK_INT(end_token(t, op.record.id, ""), 0);
    CHECK_INT(end_token(t, "tok_nobody", ""), -ERR_NOT_FOUND);
    CHECK_INT(how_many(t), 1);
    tokens_close(t);
    plane_close();
    plane_open();
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    CHECK(!tokens_find(t, str_from(op.secret)));
    CHECK_INT(end_token(t, op.record.id, "uid:7"), 0);
    CHECK_INT(count_events("token.revoked"), 1);
    tokens_close(t);
    plane_close();
}

enum { BURST = 100 };

/* As a store has them, however that came. */
static void store_made(const char *owner, const char *maker, int from, int n)
{
    for (int i = from; i < from + n;) {
        struct store_txn x;

        store_txn_begin(&x, control_store(fix.control));
        for (int part = 0; part < 1000 && i < from + n; part++, i++) {
            struct token_record k = { .name = "x", .created_ns = i + 1 };

            snprintf(k.id, sizeof k.id, "tok_%d", i);
            CHECK(str_copy(str_from(owner), k.owner, sizeof k.owner));
            CHECK(str_copy(str_from(maker), k.maker, sizeof k.maker));
            memcpy(k.hash, &i, sizeof i);
            store_put_token(&x, &k);
        }
        CHECK_OK(store_commit_now(&x, &e), e);
    }
}

static void store_many(const char *owner, int from, int n)
{
    store_made(owner, "", from, n);
}

static int made, refused;

static void count_end(struct token_op *op, int r, const struct err *why)
{
    made += r >= 0;
    refused += r == -ERR_QUOTA;
}

static int make_at_once_with(struct tokens *t, const char *owner, const char *maker)
{
    static struct token_op ops[BURST];

    made = refused = 0;
    for (int i = 0; i < BURST; i++) {
        ops[i] = (struct token_op){ .record = { .name = "x" }, .done = count_end };
        CHECK(str_copy(str_from(owner), ops[i].record.owner, sizeof ops[i].record.owner));
        CHECK(str_copy(str_from(maker), ops[i].record.maker, sizeof ops[i].record.maker));
        tokens_create(t, &fix.caller.actor, &ops[i]);
    }
    WAIT_FOR(made + refused == BURST);
    return made;
}

static int make_at_once(struct tokens *t, const char *owner)
{
    return make_at_once_with(t, owner, "");
}

TEST(requests_at_once_stay_within_an_owners_share)
{
    struct tokens *t;

    plane_open();
    store_many("uid:77777", 0, TOKENS_PER_OWNER - 1);
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    CHECK_INT(make_at_once(t, "uid:77777"), 1);
    CHECK_INT(end_token(t, "tok_0", ""), 0);
    WAIT_FOR(make_at_once(t, "uid:77777") == 1); /* when watchers were notified of its end */
    CHECK_INT(how_many(t), TOKENS_PER_OWNER);
    CHECK_INT(make_at_once(t, "uid:88888"), BURST);
    tokens_close(t);
    plane_close();
}

TEST(more_tokens_than_there_may_be_refuse_new_ones_and_not_the_start)
{
    struct tokens *t;
    char owner[OWNER_MAX];

    plane_open();
    for (int i = 0; i < 4; i++) {
        snprintf(owner, sizeof owner, "uid:7777%d", i);
        store_many(owner, i * TOKENS_PER_OWNER, TOKENS_PER_OWNER);
    }
    store_many("uid:77777", TOKENS_MAX, 99);
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    CHECK_INT(how_many(t), TOKENS_MAX + 99);
    CHECK_INT(make_at_once(t, "uid:88888"), 0);
    CHECK_INT(make_at_once(t, "uid:0"), 0);
    tokens_close(t);
    plane_close();
}

TEST(a_part_of_all_tokens_is_for_administrators)
{
    struct tokens *t;
    char owner[OWNER_MAX];

    plane_open();
    for (int i = 0; i < 4; i++) {
        snprintf(owner, sizeof owner, "uid:7777%d", i);
        store_many(owner, i * TOKENS_PER_OWNER, TOKENS_PER_OWNER - 150);
    }
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    CHECK_INT(make_at_once(t, "uid:88888"), 0);
    CHECK_INT(make_at_once(t, "uid:0"), BURST);
    tokens_close(t);
    plane_close();
}

static void start_making(struct tokens *t, const char *maker, int64_t expires_ns,
                         struct token_op *op)
{
    *op = (struct token_op){
        .record = { .name = "child", .owner = "uid:7", .expires_ns = expires_ns }, .done = on_done
    };
    CHECK(str_copy(str_from(maker), op->record.maker, sizeof op->record.maker));
    tokens_create(t, &fix.caller.actor, op);
}

static struct token_op make_with(struct tokens *t, const char *maker, int64_t expires_ns)
{
    struct token_op op;
    int before = ends;

    start_making(t, maker, expires_ns, &op);
    CHECK_OK(wait_end(before), e);
    return op;
}

TEST(a_token_that_a_token_made_ends_with_it)
{
    struct token_op maker, child, grandchild, other;
    struct tokens *t;

    plane_open();
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    maker = make(t, "uid:7");
    child = make_with(t, maker.record.id, 0);
    tokens_close(t);
    plane_close();
    plane_open(); /* which made which is on disk */
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    grandchild = make_with(t, child.record.id, 0);
    other = make(t, "uid:7");
    CHECK_INT(end_token(t, maker.record.id, "uid:7"), 0);
    for (int round = 0; round < 2; round++) {
        CHECK(!tokens_find(t, str_from(maker.secret)));
        CHECK(!tokens_find(t, str_from(child.secret)));
        CHECK(!tokens_find(t, str_from(grandchild.secret)));
        CHECK(tokens_find(t, str_from(other.secret)));
        CHECK_INT(count_events("token.revoked"), 3);
        CHECK_INT(end_token(t, child.record.id, "uid:7"), 0);
        tokens_close(t);
        plane_close();
        plane_open();
        CHECK_OK(tokens_open(fix.control, &t, &e), e);
    }
    tokens_close(t);
    plane_close();
}

/* Each was made before its maker, by the wall clock. */
TEST(a_clock_that_was_set_back_parts_no_family)
{
    struct tokens *t;

    plane_open();
    store_made("uid:7", "tok_2", 0, 1);
    store_made("uid:7", "tok_2", 1, 1);
    store_made("uid:7", "tok_3", 2, 1);
    store_made("uid:7", "", 3, 1);
    store_made("uid:7", "tok_3", 4, 1);
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    for (int i = 0; i < 5; i++) {
        char id[ID_MAX];

        snprintf(id, sizeof id, "tok_%d", i);
        CHECK_STR(str_from(tokens_family(t, id)), "tok_3");
    }
    CHECK_INT(how_many(t), 5);
    CHECK_INT(end_token(t, "tok_3", "uid:7"), 0);
    CHECK_INT(how_many(t), 0);
    CHECK_INT(count_events("token.revoked"), 5);
    tokens_close(t);
    plane_close();
}

/* Its own, and what those that it made have made. */
TEST(a_family_makes_seven_eighths_of_an_owners_tokens)
{
    enum { PART = TOKENS_PER_OWNER / 8 * 7 + 3 };
    struct tokens *t;

    plane_open();
    store_many("uid:7", 0, 2);
    store_made("uid:7", "tok_0", 2, 1);
    store_made("uid:7", "tok_2", 3, PART - 11);
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    CHECK_STR(str_from(tokens_family(t, "tok_100")), "tok_0");
    CHECK_STR(str_from(tokens_family(t, "tok_1")), "tok_1");
    CHECK_STR(str_from(tokens_family(t, "tok_gone")), "tok_gone");
    CHECK_INT(make_at_once_with(t, "uid:7", "tok_3"), 10);
    CHECK_INT(make_at_once_with(t, "uid:7", "tok_0"), 0);
    CHECK_INT(make_at_once_with(t, "uid:7", "tok_1"), BURST);
    CHECK_INT(make_at_once(t, "uid:7"), BURST);
    tokens_close(t);
    plane_close();
}

TEST(a_family_of_an_administrators_tokens_makes_as_many_as_an_owner_has)
{
    struct tokens *t;

    plane_open();
    store_many("uid:0", 0, 2);
    store_made("uid:0", "tok_0", 2, TOKENS_PER_OWNER - 10);
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    CHECK_INT(make_at_once_with(t, "uid:0", "tok_0"), 10);
    CHECK_INT(make_at_once_with(t, "uid:0", "tok_2"), 0);
    CHECK_INT(make_at_once_with(t, "uid:0", "tok_1"), BURST);
    CHECK_INT(make_at_once(t, "uid:0"), BURST);
    tokens_close(t);
    plane_close();
}

TEST(the_reserve_of_tokens_is_not_for_an_administrators_tokens)
{
    struct tokens *t;
    char owner[OWNER_MAX];

    plane_open();
    for (int i = 0; i < 4; i++) {
        snprintf(owner, sizeof owner, "uid:7777%d", i);
        store_many(owner, i * TOKENS_PER_OWNER, TOKENS_PER_OWNER - 150);
    }
    store_many("uid:0", TOKENS_MAX, 1);
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    snprintf(owner, sizeof owner, "tok_%d", TOKENS_MAX);
    CHECK_INT(make_at_once_with(t, "uid:0", owner), 0);
    CHECK_INT(make_at_once(t, "uid:0"), BURST);
    tokens_close(t);
    plane_close();
}

TEST(a_token_on_its_way_to_disk_ends_with_its_maker_too)
{
    struct token_op maker, child, late;
    struct tokens *t;
    int before;

    plane_open();
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    maker = make(t, "uid:7");
    before = ends;
    start_making(t, maker.record.id, 0, &child);
    {
        struct token_op op = { .done = on_done };
        struct caller who = { .admin = true };

        memcpy(op.record.id, maker.record.id, sizeof op.record.id);
        tokens_revoke(t, &who, &op);
        WAIT_FOR(ends == before + 2);
    }
    CHECK(!tokens_find(t, str_from(child.secret)));
    before = ends;
    start_making(t, maker.record.id, 0, &late);
    CHECK_INT(wait_end(before), -ERR_DENIED);
    tokens_close(t);
    plane_close();
    plane_open();
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    CHECK(!tokens_find(t, str_from(child.secret)));
    tokens_close(t);
    plane_close();
}

TEST(a_token_has_no_more_time_than_its_maker)
{
    int64_t end = clock_wall() + 3600 * NS_PER_S;
    struct token_op op = { .record = { .name = "maker", .owner = "uid:7", .expires_ns = end },
                           .done = on_done };
    struct tokens *t;
    int before = ends;

    plane_open();
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    tokens_create(t, &fix.caller.actor, &op);
    CHECK_OK(wait_end(before), e);
    CHECK(make_with(t, op.record.id, 0).record.expires_ns == end);
    CHECK(make_with(t, op.record.id, end + 1).record.expires_ns == end);
    CHECK(make_with(t, op.record.id, end - 1).record.expires_ns == end - 1);
    tokens_close(t);
    plane_close();
}

static int told;
static char told_id[ID_MAX];

static void on_watched(struct token_watcher *w, const struct token_record *r)
{
    told++;
    memcpy(told_id, r->id, sizeof told_id);
}

TEST(an_end_is_told_once_by_revocation_and_by_time)
{
    struct token_watcher w = { .ended = on_watched };
    struct token_op op = { .record = { .name = "short", .owner = "uid:7" }, .done = on_done };
    struct tokens *t;
    int before;

    plane_open();
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    tokens_watch(t, &w);
    before = ends;
    op.record.expires_ns = clock_wall() + 20 * NS_PER_MS;
    tokens_create(t, &fix.caller.actor, &op);
    CHECK_OK(wait_end(before), e);
    WAIT_FOR(told == 1);
    CHECK_STR(str_from(told_id), op.record.id);
    CHECK(!tokens_find(t, str_from(op.secret)));
    op = make(t, "uid:7");
    CHECK_INT(end_token(t, op.record.id, "uid:7"), 0);
    WAIT_FOR(told == 2);
    CHECK_STR(str_from(told_id), op.record.id);
    CHECK_INT(end_token(t, op.record.id, "uid:7"), 0);
    make(t, "uid:7");
    CHECK_INT(told, 2);
    tokens_close(t);
    plane_close();
}

TEST(an_expired_token_is_not_found)
{
    struct tokens *t;
    struct token_op op = { .record = { .name = "short", .owner = "uid:7" }, .done = on_done };
    int before = ends;

    plane_open();
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    op.record.expires_ns = clock_wall() - 1;
    tokens_create(t, &fix.caller.actor, &op);
    CHECK_OK(wait_end(before), e);
    CHECK(!tokens_find(t, str_from(op.secret)));
    CHECK_INT(how_many(t), 1);
    tokens_close(t);
    plane_close();
}

static size_t count_rows(void)
{
    struct store_query q = { .kind = STORE_TOKENS };
    size_t n;

    arena_init(&q.arena, 256 << 20);
    CHECK_OK(store_ask_now(control_store(fix.control), &q, &e), e);
    n = q.n;
    arena_done(&q.arena);
    return n;
}

TEST(an_owner_has_a_share_of_tokens)
{
    struct token_op one = { .done = on_done }, first;
    struct tokens *t;
    int before;

    plane_open();
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    first = make(t, "uid:7");
    for (int i = 1; i < TOKENS_PER_OWNER; i++)
        make(t, "uid:7");
    one.record = first.record;
    before = ends;
    tokens_create(t, &fix.caller.actor, &one);
    CHECK_INT(wait_end(before), -ERR_QUOTA);
    make(t, "uid:8");
    CHECK_INT(end_token(t, first.record.id, "uid:7"), 0);
    make(t, "uid:7"); /* the revoked one makes room, and its row goes */
    CHECK_INT(count_rows(), TOKENS_PER_OWNER + 1);
    tokens_close(t);
    plane_close();
}

/* An owner that has caused its events can start nothing, and revoke. */
TEST(an_owner_beyond_its_events_makes_no_tokens)
{
    struct token_op one = { .done = on_done }, first;
    struct tokens *t;
    int before;

    fix.config.limits.events_per_owner = 6; /* three at once */
    plane_open();
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    first = make(t, "uid:7");
    make(t, "uid:7");
    make(t, "uid:7");
    one.record = first.record;
    before = ends;
    tokens_create(t, &fix.caller.actor, &one);
    CHECK_INT(wait_end(before), -ERR_QUOTA);
    CHECK(strstr(e.msg, "limits.events_per_owner"));
    make(t, "uid:8");
    make(t, "uid:0"); /* an administrator has no limit */
    make(t, "uid:0");
    make(t, "uid:0");
    make(t, "uid:0");
    CHECK_INT(end_token(t, first.record.id, "uid:7"), 0);
    tokens_close(t);
    plane_close();
    plane_open(); /* the next daemon run counts the stored tokens */
    CHECK_OK(tokens_open(fix.control, &t, &e), e);
    before = ends;
    tokens_create(t, &fix.caller.actor, &one);
    CHECK_INT(wait_end(before), -ERR_QUOTA);
    tokens_close(t);
    plane_close();
}
