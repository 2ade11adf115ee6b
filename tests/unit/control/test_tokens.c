#include "base/clock.h"
#include "control/tokens.h"
#include "fixture.h"

static int ends, last;

static void on_done(struct token_op *op, int r, const struct err *why)
{
    (void)op;
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
    int before = ends;

    CHECK(str_copy(str_from(id), op.record.id, sizeof op.record.id));
    CHECK(str_copy(str_from(owner), op.record.owner, sizeof op.record.owner));
    tokens_revoke(t, &fix.caller.actor, &op);
    CHECK_INT(ends, before);
    return wait_end(before);
}

static void count(void *user, const struct token_record *r)
{
    (void)r;
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
