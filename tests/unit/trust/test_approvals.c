/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/approvals.h"

#include <stdio.h>

#include "base/clock.h"
#include "trust/internal.h"
#include "world.h"

static const struct trust_capabilities networked = { .network = true };
#define EXEC "{\"sandbox_id\":\"sbx_a\",\"command\":\"curl x\"}"

/* --- who runs them --- */

static int runs;
static char ran_args[256], ran_peer[ID_MAX];
static struct trust_call *running;
static bool keep_running;

static void run(void *user, struct trust_call *c)
{
    const struct json *v = json_get(c->args, STR("command"));

    runs++;
    snprintf(ran_args, sizeof ran_args, STR_FMT, STR_ARG(v->s));
    memcpy(ran_peer, c->peer, sizeof ran_peer);
    CHECK_STR(str_from(c->tool), "sandbox_exec");
    CHECK(c->caller->labels.n == 1 && !c->caller->admin);
    if (keep_running)
        running = c;
    else
        trust_call_done(c, false, STR("{\"exit_code\":0}"));
}

static const struct trust_runner runner = { .run = run };

/* --- deciding --- */

static int ends, last;

static void on_done(struct approval_op *op, int r, const struct err *why)
{
    if (r < 0)
        e = *why;
    last = r;
    ends++;
}

static struct approval_op op_of(const char *id, const char *owner)
{
    struct approval_op op = { .master = { .actor = { .kind = ACTOR_ADM }, .role = ROLE_MASTER },
                              .reason = "looked at it",
                              .done = on_done };

    snprintf(op.id, sizeof op.id, "%s", id);
    snprintf(op.master.owner, sizeof op.master.owner, "%s", owner);
    snprintf(op.master.actor.id, sizeof op.master.actor.id, "%s", owner);
    return op;
}

static int decide(struct approval_op op, bool approve)
{
    int before = ends;

    (approve ? approvals_approve : approvals_reject)(world.trust, &op);
    CHECK_INT(ends, before);
    WAIT_FOR(ends > before);
    return last;
}

static int approve(const char *id, const char *owner)
{
    return decide(op_of(id, owner), true);
}

/* As the store has it. */
static struct approval_record stored(const char *id)
{
    static struct store_query q;

    arena_done(&q.arena);
    q = (struct store_query){ .kind = STORE_APPROVAL, .text = str_from(id) };
    CHECK_OK(store_ask_now(control_store(fix.control), &q, &e), e);
    CHECK_INT(q.n, 1);
    return q.approvals[0];
}

static struct verdict held_start_call(struct peer *p)
{
    struct verdict v = ask(p, "sandbox_exec", EXEC, &networked);

    CHECK_INT(v.kind, VERDICT_REQUIRE_APPROVAL);
    CHECK(id_valid("req_", str_from(v.request_id)));
    CHECK_INT(v.tier, 4);
    return v;
}

static struct verdict held_by_somebody(void)
{
    struct peer *p = new_peer();
    struct verdict v = held_start_call(p);

    peer_unref(p);
    return v;
}

TEST(an_approved_call_runs_once_with_its_arguments)
{
    struct approval_record r;
    struct verdict v;
    struct peer *p;

    world_open();
    trust_set_runner(world.trust, &runner);
    p = new_peer();
    v = held_start_call(p);
    r = stored(v.request_id);
    CHECK_INT(r.state, APPROVAL_PENDING);
    CHECK_STR(r.args, EXEC);
    CHECK_STR(str_from(r.version), v.version);
    CHECK_OK(approve(v.request_id, "uid:0"), e);
    WAIT_FOR(!approvals_find(world.trust, str_from(v.request_id)));
    CHECK_INT(runs, 1);
    CHECK_STR(str_from(ran_args), "curl x");
    CHECK_STR(str_from(ran_peer), p->record.id);
    r = stored(v.request_id);
    CHECK_INT(r.state, APPROVAL_DONE);
    CHECK_STR(r.result, "{\"exit_code\":0}");
    CHECK_STR(str_from(r.approver), "uid:0");
    CHECK_INT(approve(v.request_id, "uid:0"), -ERR_NOT_FOUND); /* replayed */
    CHECK_INT(runs, 1);
    CHECK_INT(count_events("approval.requested"), 1);
    CHECK_INT(count_events("approval.approved"), 1);
    CHECK_INT(count_events("approval.done"), 1);
    peer_unref(p);
    world_close();
}

TEST(nobody_decides_what_they_asked_for)
{
    struct approval_op op;
    struct verdict v;
    struct peer *p;

    world_open();
    trust_set_runner(world.trust, &runner);
    p = new_peer();
    v = held_start_call(p);
    CHECK_INT(approve(v.request_id, "uid:1000"), -ERR_DENIED);
    CHECK(strstr(e.msg, "another user"));
    CHECK_INT(decide(op_of(v.request_id, "uid:1000"), false), -ERR_DENIED);
    op = op_of(v.request_id, "uid:0");
    op.master.role = ROLE_JOURNEYMAN;
    CHECK_INT(decide(op, true), -ERR_DENIED);
    CHECK_INT(approve("req_00000000000000000000", "uid:0"), -ERR_NOT_FOUND);
    CHECK_INT(stored(v.request_id).state, APPROVAL_PENDING);
    CHECK_INT(runs, 0);
    op = op_of(v.request_id, "uid:1000"); /* the same user with a master token */
    op.master.by_token = true;
    snprintf(op.master.actor.id, sizeof op.master.actor.id, "tok_x");
    CHECK_OK(decide(op, true), e);
    WAIT_FOR(runs == 1);
    peer_unref(p);
    world_close();
}

/* A decision of the requester's own user, after a question on a terminal. */
static int decide_own(const char *id, bool approve_it, const char *not_self)
{
    struct approval_op op = op_of(id, "uid:1000");

    op.master.self = true;
    op.master.not_self = not_self;
    return decide(op, approve_it);
}

TEST(a_user_decides_own_requests_only_if_self_approval_is_on)
{
    struct verdict v;
    struct peer *p;

    world_open();
    p = new_peer();
    v = held_start_call(p);
    CHECK_INT(decide_own(v.request_id, true, NULL), -ERR_DENIED);
    CHECK(strstr(e.msg, "trust.self_approval: true"));
    peer_unref(p);
    world_close();
    world.setup.self_approval = true;
    world_open();
    CHECK_INT(approve(v.request_id, "uid:1000"), -ERR_DENIED); /* without a question */
    CHECK(strstr(e.msg, "approvals watch"));
    CHECK_INT(decide_own(v.request_id, true, "a token came along"), -ERR_DENIED);
    CHECK(strstr(e.msg, "a token came along"));
    CHECK_OK(decide_own(v.request_id, false, NULL), e);
    CHECK_INT(stored(v.request_id).state, APPROVAL_REJECTED);
    CHECK_STR(str_from(stored(v.request_id).approver), "self");
    world_close();
}

TEST(where_tenants_are_self_approval_is_not_offered)
{
    struct verdict v;

    world.setup.serves_tenants = true;
    world_open();
    v = held_by_somebody();
    CHECK_INT(decide_own(v.request_id, true, NULL), -ERR_DENIED);
    CHECK(strstr(e.msg, "SANDBOXER_MASTER=$("));
    CHECK(!strstr(e.msg, "self_approval"));
    world_close();
}

TEST(a_rejected_call_never_runs)
{
    struct verdict v;
    struct peer *p;

    world_open();
    trust_set_runner(world.trust, &runner);
    p = new_peer();
    v = held_start_call(p);
    CHECK_OK(decide(op_of(v.request_id, "uid:0"), false), e);
    CHECK_INT(stored(v.request_id).state, APPROVAL_REJECTED);
    CHECK_STR(str_from(stored(v.request_id).reason), "looked at it");
    CHECK_INT(approve(v.request_id, "uid:0"), -ERR_NOT_FOUND);
    CHECK_INT(runs, 0);
    peer_unref(p);
    world_close();
}

static int changes;
static enum approval_state seen[8];

static void on_changed(struct approval_waiter *w, const struct approval_record *r)
{
    CHECK(changes < 8);
    seen[changes++] = r->state;
}

TEST(whoever_waits_hears_of_every_step)
{
    struct approval_waiter w = { .changed = on_changed };
    struct verdict v;
    struct peer *p;

    world_open();
    trust_set_runner(world.trust, &runner);
    p = new_peer();
    v = held_start_call(p);
    memcpy(w.id, v.request_id, sizeof w.id);
    approvals_wait(world.trust, &w);
    CHECK_OK(approve(v.request_id, "uid:0"), e);
    WAIT_FOR(changes == 3);
    CHECK(seen[0] == APPROVAL_APPROVED && seen[1] == APPROVAL_RUNNING && seen[2] == APPROVAL_DONE);
    approval_waiter_stop(&w);
    peer_unref(p);
    world_close();
}

TEST(a_waiter_for_all_hears_of_new_calls_too)
{
    struct approval_waiter w = { .changed = on_changed };
    struct verdict v;
    struct peer *p;

    world_open();
    trust_set_runner(world.trust, &runner);
    p = new_peer();
    approvals_wait(world.trust, &w);
    v = held_start_call(p);
    CHECK_INT(changes, 1);
    CHECK(seen[0] == APPROVAL_PENDING);
    CHECK_OK(approve(v.request_id, "uid:0"), e);
    WAIT_FOR(changes == 4);
    CHECK(seen[3] == APPROVAL_DONE);
    approval_waiter_stop(&w);
    peer_unref(p);
    world_close();
}

#define BUNDLE(expiry)                                                                             \
    "version: 1\napprovals: { expiry: " expiry ", pending_per_peer: 2 }\n"                         \
    "tools:\n  sandbox_exec: { tier: 4, effect: execute }\n"

TEST(nobody_waits_for_ever)
{
    struct verdict v;
    struct peer *p;

    write_bundle(BUNDLE("1s"));
    world_open();
    p = new_peer();
    v = held_start_call(p);
    WAIT_FOR(!approvals_find(world.trust, str_from(v.request_id)));
    CHECK_INT(stored(v.request_id).state, APPROVAL_EXPIRED);
    peer_unref(p);
    world_close();
}

TEST(few_wait_at_once)
{
    struct verdict v;
    struct peer *p;

    write_bundle(BUNDLE("1h"));
    world_open();
    p = new_peer();
    held_start_call(p);
    held_start_call(p);
    v = ask(p, "sandbox_exec", EXEC, &networked);
    CHECK_INT(v.kind, VERDICT_RATE_LIMIT);
    CHECK(!v.request_id[0]);
    CHECK(strstr(v.reason, "already wait for a master"));
    wait_events("trust.rate_limited", 1);
    peer_unref(p);
    world_close();
}

TEST(all_that_waits_for_an_owner_has_a_share)
{
    struct quota_hold many = { 0 };
    struct quota_who who;
    struct verdict v;
    struct peer *p;

    write_bundle(BUNDLE("1h"));
    world_open();
    p = new_peer();
    who = (struct quota_who){ .key = str_from(p->record.owner) };
    quota_charge(&world.trust->held_owned, &who, APPROVALS_PER_OWNER, &many);
    v = ask(p, "sandbox_exec", EXEC, &networked);
    CHECK_INT(v.kind, VERDICT_RATE_LIMIT);
    CHECK(strstr(v.reason, "as one owner may have"));
    quota_drop(&many);
    quota_charge(&world.trust->held_owned_bytes, &who, APPROVALS_BYTES / 4, &many);
    v = ask(p, "sandbox_exec", EXEC, &networked);
    CHECK_INT(v.kind, VERDICT_RATE_LIMIT);
    CHECK(strstr(v.reason, "as one owner may have"));
    quota_drop(&many);
    quota_charge(&world.trust->held_owned, &(struct quota_who){ .key = STR("others") },
                 APPROVALS_MAX, &many);
    v = ask(p, "sandbox_exec", EXEC, &networked);
    CHECK(v.kind != VERDICT_ALLOW && !v.request_id[0]);
    quota_drop(&many);
    held_start_call(p);
    CHECK_INT(quota_used(&world.trust->held_owned, who.key), 1);
    CHECK(quota_used(&world.trust->held_owned_bytes, who.key) > 0);
    rate_use(&world.trust->held_rate, who.key, APPROVALS_DAY_BYTES, clock_mono());
    v = ask(p, "sandbox_exec", EXEC, &networked);
    CHECK_INT(v.kind, VERDICT_RATE_LIMIT);
    CHECK(strstr(v.reason, "within a day"));
    peer_unref(p);
    world_close();
}

static void check_family_refused(struct peer *p, const char *why)
{
    struct verdict v = ask(p, "sandbox_exec", EXEC, &networked);

    CHECK_INT(v.kind, VERDICT_RATE_LIMIT);
    CHECK(strstr(v.reason, why));
}

TEST(a_family_of_tokens_leaves_held_calls_to_others)
{
    const struct quota_who family = { .key = STR("uid:1000"), .parts = { STR("tok_a") } };
    struct quota_hold many = { 0 };
    struct peer *p, *q;

    write_bundle(BUNDLE("1h"));
    world_open();
    store_token("tok_a", "uid:1000", "");
    store_token("tok_b", "uid:1000", "");
    world_close();
    world_open();
    p = new_peer_by("uid:1000", "tok_a");
    q = new_peer_by("uid:1000", "tok_b");
    quota_charge(&world.trust->held_owned, &family, quota_token_part(APPROVALS_PER_OWNER), &many);
    check_family_refused(p, "as many calls of this token's family");
    held_start_call(q);
    quota_drop(&many);
    quota_charge(&world.trust->held_owned_bytes, &family, quota_token_part(APPROVALS_BYTES / 4),
                 &many);
    check_family_refused(p, "as many calls of this token's family");
    held_start_call(q);
    quota_drop(&many);
    held_start_call(p);
    for (int life = 0; life < 2; life++) {
        CHECK_INT(quota_used(&world.trust->held_owned, STR("tok_a")), 1);
        CHECK_INT(quota_used(&world.trust->held_owned, STR("tok_b")), 2);
        CHECK(quota_used(&world.trust->held_owned_bytes, STR("tok_a")) > 0);
        peer_unref(p);
        peer_unref(q);
        world_close();
        world_open();
        p = new_peer_by("uid:1000", "tok_a");
        q = new_peer_by("uid:1000", "tok_b");
    }
    rate_use(&world.trust->family_held_rate, STR("tok_a"), APPROVALS_DAY_BYTES, clock_mono());
    check_family_refused(p, "within a day");
    held_start_call(q);
    peer_unref(p);
    peer_unref(q);
    world_close();
}

TEST(a_family_of_an_administrators_tokens_has_an_owners_share_of_held_calls)
{
    const struct quota_who family = { .key = STR("family:tok_a") };
    struct quota_hold many = { 0 };
    struct peer *p, *q;

    write_bundle(BUNDLE("1h"));
    world_open();
    p = new_peer_by("uid:0", "tok_a");
    q = new_peer_by("uid:0", "tok_b");
    quota_charge(&world.trust->held_owned, &family, APPROVALS_PER_OWNER, &many);
    check_family_refused(p, "family:tok_a");
    held_start_call(q);
    quota_drop(&many);
    held_start_call(p);
    CHECK_INT(quota_used(&world.trust->held_owned, family.key), 1);
    rate_use(&world.trust->held_rate, family.key, APPROVALS_DAY_BYTES, clock_mono());
    check_family_refused(p, "within a day");
    held_start_call(q);
    peer_unref(p);
    peer_unref(q);
    world_close();
}

/* As many more as the store is to have of the call that this peer has waiting. */
static void store_held(struct approval_record r, int n)
{
    for (int i = 0; i < n;) {
        struct store_txn x;

        store_txn_begin(&x, control_store(fix.control));
        for (int part = 0; part < 500 && i < n; part++, i++) {
            snprintf(r.id, sizeof r.id, "req_%020d", i);
            store_add_approval(&x, &r);
        }
        CHECK_OK(store_commit_now(&x, &e), e);
    }
}

TEST(an_owner_has_a_share_of_all_calls_that_wait)
{
    struct peer *p, *q;
    struct verdict v;

    world_open();
    p = new_peer();
    v = held_start_call(p);
    store_held(stored(v.request_id), APPROVALS_PER_OWNER - 1);
    peer_unref(p);
    world_close();
    world_open();
    p = new_peer(); /* has nothing waiting itself */
    v = ask(p, "sandbox_exec", EXEC, &networked);
    CHECK(v.kind != VERDICT_ALLOW && !v.request_id[0]);
    CHECK(strstr(v.reason, "as one owner may have"));
    q = new_peer_of("uid:1001", ROLE_JOURNEYMAN);
    (void)held_start_call(q);
    peer_unref(p);
    peer_unref(q);
    world_close();
}

TEST(who_asks_now_may_be_less_than_the_peer_and_not_more)
{
    struct peer *p;

    write_bundle("version: 1\ntools:\n  low: {tier: 2, effect: none}\n"
                 "  high: {tier: 2, effect: none, role: master}\n");
    world_open();
    p = new_peer();
    CHECK_INT(p->record.role, ROLE_JOURNEYMAN);
    CHECK_INT(ask_as(p, ROLE_JOURNEYMAN, "low", "{}", NULL).kind, VERDICT_ALLOW);
    CHECK_INT(ask_as(p, ROLE_APPRENTICE, "low", "{}", NULL).kind, VERDICT_DENY);
    CHECK_INT(ask_as(p, ROLE_MASTER, "high", "{}", NULL).kind, VERDICT_DENY);
    peer_unref(p);
    world_close();
}

TEST(another_policy_invalidates)
{
    struct verdict v;
    struct peer *p;

    write_bundle(BUNDLE("1h"));
    world_open();
    trust_set_runner(world.trust, &runner);
    p = new_peer();
    v = held_start_call(p);
    CHECK_INT(trust_reload(world.trust, &e), 0); /* the same again */
    CHECK_INT(stored(v.request_id).state, APPROVAL_PENDING);
    write_bundle("version: 1\ntools: [\n");
    CHECK(trust_reload(world.trust, &e) < 0); /* the last good one stays */
    CHECK(strstr(e.msg, "bundle.yaml"));
    CHECK_STR(str_from(trust_current(world.trust)->bundle->version), v.version);
    CHECK_INT(stored(v.request_id).state, APPROVAL_PENDING);
    write_bundle(BUNDLE("2h"));
    CHECK_INT(trust_reload(world.trust, &e), 1);
    CHECK_INT(approve(v.request_id, "uid:0"), -ERR_CONFLICT);
    WAIT_FOR(!approvals_find(world.trust, str_from(v.request_id)));
    CHECK_INT(stored(v.request_id).state, APPROVAL_INVALID);
    CHECK_INT(runs, 0);
    peer_unref(p);
    world_close();
}

TEST(a_peer_takes_what_waits_with_it)
{
    struct verdict v;
    struct peer *p;

    world_open();
    p = new_peer();
    v = held_start_call(p);
    peer_end(p, &fix.caller.actor, "test", NULL, NULL);
    WAIT_FOR(!approvals_find(world.trust, str_from(v.request_id)));
    CHECK_INT(stored(v.request_id).state, APPROVAL_INVALID);
    peer_unref(p);
    world_close();
}

/* --- across restarts --- */

TEST(what_waits_outlives_the_daemon)
{
    struct verdict v;

    world_open();
    v = held_by_somebody();
    world_close();
    world_open();
    trust_set_runner(world.trust, &runner);
    CHECK(approvals_find(world.trust, str_from(v.request_id)));
    CHECK_INT(approve(v.request_id, "uid:1000"), -ERR_DENIED);
    CHECK_OK(approve(v.request_id, "uid:0"), e);
    WAIT_FOR(runs == 1);
    CHECK_STR(str_from(ran_args), "curl x");
    WAIT_FOR(!approvals_find(world.trust, str_from(v.request_id)));
    world_close();
}

TEST(what_was_approved_and_did_not_begin_runs_in_the_next_life)
{
    struct verdict v;

    world_open(); /* without a runner */
    v = held_by_somebody();
    CHECK_OK(approve(v.request_id, "uid:0"), e);
    CHECK_INT(stored(v.request_id).state, APPROVAL_APPROVED);
    CHECK_INT(approve(v.request_id, "uid:0"), -ERR_CONFLICT);
    world_close();
    world_open();
    trust_set_runner(world.trust, &runner);
    WAIT_FOR(!approvals_find(world.trust, str_from(v.request_id)));
    CHECK_INT(runs, 1);
    CHECK_INT(stored(v.request_id).state, APPROVAL_DONE);
    world_close();
    world_open();
    trust_set_runner(world.trust, &runner);
    CHECK_INT(count_events("approval.running"), 1);
    CHECK_INT(runs, 1);
    world_close();
}

TEST(what_ran_when_the_daemon_ended_is_not_run_again)
{
    struct verdict v;

    keep_running = true;
    world_open();
    trust_set_runner(world.trust, &runner);
    v = held_by_somebody();
    CHECK_OK(approve(v.request_id, "uid:0"), e);
    WAIT_FOR(running);
    CHECK_INT(stored(v.request_id).state, APPROVAL_RUNNING);
    world_close();
    trust_call_done(running, false, STR("{}")); /* ignored after the close */
    world_open();
    trust_set_runner(world.trust, &runner);
    wait_events("approval.interrupted", 1);
    WAIT_FOR(!approvals_find(world.trust, str_from(v.request_id))); /* after the event is stored */
    CHECK_INT(stored(v.request_id).state, APPROVAL_INTERRUPTED);
    CHECK_INT(runs, 1);
    CHECK_INT(approve(v.request_id, "uid:0"), -ERR_NOT_FOUND);
    world_close();
}

/* --- grants --- */

TEST(a_grant_is_for_one_tool_on_one_sandbox)
{
    struct approval_op op;
    struct verdict v;
    struct peer *p, *q;

    world_open();
    trust_set_runner(world.trust, &runner);
    p = new_peer();
    q = new_peer();
    v = held_start_call(p);
    op = op_of(v.request_id, "uid:0");
    op.grant_ns = 600 * NS_PER_S;
    op.grant_uses = 2;
    CHECK_OK(decide(op, true), e);
    CHECK_INT(ask(q, "sandbox_exec", EXEC, &networked).kind, VERDICT_REQUIRE_APPROVAL);
    CHECK_INT(ask(p, "sandbox_install", "{\"sandbox_id\":\"sbx_a\"}", &networked).kind,
              VERDICT_REQUIRE_APPROVAL);
    CHECK_INT(ask(p, "sandbox_exec", "{\"sandbox_id\":\"sbx_b\"}", &networked).kind,
              VERDICT_REQUIRE_APPROVAL);
    CHECK_INT(ask(p, "sandbox_exec", EXEC, &networked).kind, VERDICT_ALLOW);
    CHECK_INT(ask(p, "sandbox_exec", EXEC, &networked).kind, VERDICT_ALLOW);
    CHECK_INT(ask(p, "sandbox_exec", EXEC, &networked).kind, VERDICT_REQUIRE_APPROVAL);
    CHECK_INT(count_events("trust.grant_used"), 2);
    peer_unref(p);
    peer_unref(q);
    world_close();
}

TEST(a_grant_ends_with_its_policy)
{
    struct approval_op op;
    struct peer *p;

    write_bundle(BUNDLE("1h"));
    world_open();
    trust_set_runner(world.trust, &runner);
    p = new_peer();
    op = op_of(held_start_call(p).request_id, "uid:0");
    op.grant_ns = 600 * NS_PER_S;
    CHECK_OK(decide(op, true), e);
    CHECK_INT(ask(p, "sandbox_exec", EXEC, &networked).kind, VERDICT_ALLOW);
    write_bundle(BUNDLE("2h"));
    CHECK_INT(trust_reload(world.trust, &e), 1);
    CHECK_INT(ask(p, "sandbox_exec", EXEC, &networked).kind, VERDICT_REQUIRE_APPROVAL);
    peer_unref(p);
    world_close();
}

TEST(a_grant_outlives_the_daemon_and_ends_with_its_time)
{
    char token[PEER_TOKEN_MAX];
    struct approval_op op;
    struct verdict v;

    world_open();
    trust_set_runner(world.trust, &runner);
    v = held_by_somebody();
    memcpy(token, last_token, sizeof token);
    op = op_of(v.request_id, "uid:0");
    op.grant_ns = 2 * NS_PER_S;
    CHECK_OK(decide(op, true), e);
    WAIT_FOR(!approvals_find(world.trust, str_from(v.request_id)));
    world_close();
    world_open();
    for (enum verdict_kind k = VERDICT_ALLOW; k == VERDICT_ALLOW;)
        k = ask(peers_by_token(world.trust, str_from(token)), "sandbox_exec", EXEC, &networked)
                .kind;
    CHECK(count_events("trust.grant_used") > 0);
    world_close();
}

static int grant_for(struct peer *p)
{
    struct approval_op op = op_of(held_start_call(p).request_id, "uid:0");

    op.grant_ns = 600 * NS_PER_S;
    return decide(op, true);
}

/* Grants of this peer, each on a sandbox of its own. */
static void store_grants(const struct peer *p, const char *version, int n)
{
    struct grant_record r = { .tool = "sandbox_exec", .expires_ns = clock_wall() + 600 * NS_PER_S };
    struct store_txn x;

    snprintf(r.peer, sizeof r.peer, "%s", p->record.id);
    snprintf(r.version, sizeof r.version, "%s", version);
    store_txn_begin(&x, control_store(fix.control));
    for (int i = 0; i < n; i++) {
        CHECK_OK(id_make("grant_", r.id, &e), e);
        snprintf(r.sandbox, sizeof r.sandbox, "sbx_%d", i);
        store_put_grant(&x, &r);
    }
    CHECK_OK(store_commit_now(&x, &e), e);
}

TEST(an_owner_has_a_share_of_all_grants)
{
    char token[4][PEER_TOKEN_MAX], owner[OWNER_MAX];
    struct verdict v;
    struct peer *p;

    world_open();
    for (int i = 0; i < 4; i++) {
        snprintf(owner, sizeof owner, "uid:%d", 1000 + i);
        p = new_peer_of(owner, ROLE_JOURNEYMAN);
        memcpy(token[i], last_token, sizeof token[i]);
        v = held_start_call(p);
        store_grants(p, v.version, GRANTS_PER_OWNER - (i == 3));
        peer_unref(p);
    }
    world_close();
    world_open();
    trust_set_runner(world.trust, &runner);
    CHECK_INT(grant_for(peers_by_token(world.trust, str_from(token[0]))), -ERR_QUOTA);
    CHECK_OK(grant_for(peers_by_token(world.trust, str_from(token[3]))), e);
    p = new_peer_of("uid:1004", ROLE_JOURNEYMAN);
    CHECK_INT(grant_for(p), -ERR_QUOTA); /* all are taken */
    CHECK_OK(approve(held_start_call(p).request_id, "uid:0"), e);
    peer_unref(p);
    world_close();
}

/* --- the record --- */

TEST(refusals_are_on_record_and_cannot_fill_it)
{
    size_t n;
    struct peer *p;

    world_open();
    p = new_peer_of("uid:1000", ROLE_APPRENTICE);
    for (int i = 0; i < 200; i++)
        CHECK_INT(ask(p, "sandbox_install", "{}", NULL).kind, VERDICT_DENY);
    n = count_events("trust.denied");
    CHECK(n >= 30 && n < 100);
    peer_unref(p);
    world_close();
}
