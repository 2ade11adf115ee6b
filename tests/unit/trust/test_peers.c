/* SPDX-License-Identifier: Apache-2.0 */
#include "trust/peers.h"

#include <stdio.h>

#include "base/clock.h"
#include "lib/crypto/hash.h"
#include "lib/quota/quota.h"
#include "world.h"

static bool is_alive(const char *sandbox)
{
    const struct caller all = { .admin = true };
    struct sandbox *s;

    if (!control_find_now(fix.control, &all, str_from(sandbox), &s))
        return false;
    sandbox_unref(s);
    return true;
}

static size_t stored_peers(void)
{
    struct store_query q = { .kind = STORE_PEERS };
    size_t n;

    CHECK_OK(store_ask_now(control_store(fix.control), &q, &e), e);
    n = q.n;
    arena_done(&q.arena);
    return n;
}

TEST(is_known_by_its_token_alone)
{
    struct peer *p;

    world_open();
    p = new_peer();
    CHECK(peers_by_token(world.trust, str_from(last_token)) == p);
    CHECK(peers_by_id(world.trust, str_from(p->record.id)) == p);
    CHECK(!peers_by_token(world.trust, STR("sbp_0000000000000000000000000000000000000000")));
    CHECK(!peers_by_token(world.trust, str_from(p->record.id)));
    CHECK(!peers_by_token(world.trust, STR("")));
    CHECK(id_valid("peer_", str_from(p->record.id)));
    CHECK_INT(p->record.role, ROLE_JOURNEYMAN);
    CHECK(!strchr(p->record.client, '\n'));
    CHECK_INT(count_events("peer.registered"), 1);
    peer_unref(p);
    world_close();
}

TEST(sees_its_own_sandboxes_only)
{
    struct caller one, two;
    struct peer *p, *q;
    struct sandbox *s;
    char id[ID_MAX];

    world_open();
    p = new_peer();
    q = new_peer();
    create_as(p, id);
    peer_caller(p, &one);
    peer_caller(q, &two);
    CHECK(!one.admin && !caller_may(&one, VERB_ADMIN));
    CHECK(control_find_now(fix.control, &one, str_from(id), &s));
    sandbox_unref(s);
    CHECK(!control_find_now(fix.control, &two, str_from(id), &s));
    CHECK(control_find_now(fix.control, &fix.caller, str_from(id), &s)); /* whose peers they are */
    sandbox_unref(s);
    peer_unref(p);
    peer_unref(q);
    world_close();
}

TEST(takes_its_sandboxes_with_it)
{
    char mine[2][ID_MAX], others[ID_MAX];
    struct peer *p, *q;

    world_open();
    p = new_peer();
    q = new_peer();
    create_as(p, mine[0]);
    create_as(p, mine[1]);
    create_as(q, others);
    peer_end(p, &fix.caller.actor, "test", NULL, NULL);
    CHECK(peers_by_token(world.trust, str_from(last_token)) == q);
    CHECK(!peers_by_id(world.trust, str_from(p->record.id)));
    CHECK_INT(ask(p, "sandbox_list", "{}", NULL).kind, VERDICT_DENY);
    wait_events("peer.released", 1);
    CHECK(!is_alive(mine[0]) && !is_alive(mine[1]) && is_alive(others));
    CHECK_INT(stored_peers(), 2);
    peer_end(p, &fix.caller.actor, "again", NULL, NULL);
    peer_unref(p);
    peer_unref(q);
    world_close();
}

TEST(silence_ends_it)
{
    char id[ID_MAX];
    struct peer *p;

    world.setup.silence_ns = 200 * NS_PER_MS;
    world_open();
    p = new_peer();
    create_as(p, id);
    peer_seen(p);
    wait_events("peer.ended", 1);
    WAIT_FOR(!is_alive(id));
    peer_unref(p);
    world_close();
}

TEST(what_is_under_way_is_no_silence)
{
    struct peer *busy, *idle;

    world.setup.silence_ns = 200 * NS_PER_MS;
    world_open();
    busy = new_peer();
    peer_attach(busy);
    idle = new_peer();
    WAIT_FOR(idle->record.ended_ns); /* which began later */
    CHECK(!busy->record.ended_ns);
    peer_detach(busy);
    WAIT_FOR(busy->record.ended_ns);
    peer_unref(busy);
    peer_unref(idle);
    world_close();
}

TEST(may_come_back_in_time)
{
    struct peer *p, *q;

    world.setup.grace_ns = 200 * NS_PER_MS;
    world_open();
    p = new_peer();
    q = new_peer();
    peer_leave(p);
    peer_leave(q);
    peer_seen(p);
    wait_events("peer.ended", 1);
    CHECK(p->record.ended_ns == 0 && q->record.ended_ns);
    peer_unref(p);
    peer_unref(q);
    world_close();
}

TEST(outlives_the_daemon)
{
    char token[PEER_TOKEN_MAX], peer[ID_MAX], id[ID_MAX];
    struct peer *p;

    world_open();
    p = new_peer();
    memcpy(token, last_token, sizeof token);
    memcpy(peer, p->record.id, sizeof peer);
    create_as(p, id);
    peer_unref(p);
    world_close();
    world_open();
    p = peers_by_token(world.trust, str_from(token));
    CHECK(p && strcmp(p->record.id, peer) == 0);
    CHECK_INT(p->record.role, ROLE_JOURNEYMAN);
    CHECK_STR(str_from(p->record.owner), "uid:1000");
    CHECK(is_alive(id));
    peer_end(p, &fix.caller.actor, "test", NULL, NULL);
    world_close(); /* in the middle of it */
    world_open();
    CHECK(!peers_by_token(world.trust, str_from(token)));
    wait_events("peer.released", 1);
    CHECK(!is_alive(id));
    CHECK_INT(stored_peers(), 1); /* as long as what it used counts */
    world_close();
}

TEST(whoever_registers_again_has_used_what_was_used)
{
    struct trust_usage u;
    char id[ID_MAX];
    struct peer *p, *other;

    world_open();
    p = new_peer();
    create_as(p, id);
    peer_end(p, &fix.caller.actor, "test", NULL, NULL);
    wait_events("peer.released", 1);
    peer_unref(p);
    for (int life = 0; life < 3; life++) {
        p = new_peer();
        other = new_peer_of("uid:1001", ROLE_JOURNEYMAN);
        u = peer_usage(p, clock_wall());
        CHECK_INT(u.made, 1);
        CHECK_INT(u.alive, 0);
        CHECK(u.lived_ns > 0);
        CHECK_INT(peer_usage(other, clock_wall()).made, 0);
        CHECK_INT(peer_usage(p, clock_wall() + 2 * 86400 * NS_PER_S).lived_ns, 0);
        peer_end(p, &fix.caller.actor, "test", NULL, NULL); /* which made none, and is forgotten */
        wait_events("peer.released", 2 + (size_t)life);
        peer_unref(p);
        peer_unref(other);
        world_close();
        world_open();
        CHECK_INT(count_events("peer.released"), 2 + life);
    }
    world_close();
}

TEST(rates_are_of_who_stands_behind)
{
    struct peer *p;

    write_bundle(
        "version: 1\ntools:\n  look: { tier: 0, effect: none, rate: { calls: 2, per: 1h } }\n");
    world_open();
    for (int i = 0; i < 3; i++) {
        p = new_peer();
        CHECK_INT(ask(p, "look", "{}", NULL).kind, i < 2 ? VERDICT_ALLOW : VERDICT_RATE_LIMIT);
        peer_unref(p);
    }
    world_close();
}

TEST(what_it_used_is_counted_exactly)
{
    char ids[3][ID_MAX], token[PEER_TOKEN_MAX];
    struct trust_usage u;
    struct sandbox *s;
    struct peer *p;

    world_open();
    p = new_peer();
    memcpy(token, last_token, sizeof token);
    for (int i = 0; i < 3; i++)
        create_as(p, ids[i]);
    s = find_sandbox(ids[1]);
    destroy(s);
    sandbox_unref(s);
    for (int life = 0; life < 2; life++) {
        int64_t now = clock_wall();

        u = peer_usage(p, now);
        CHECK_INT(u.made, 3);
        CHECK_INT(u.alive, 2);
        CHECK(u.lived_ns > 0);
        u = peer_usage(p, now + 3600 * NS_PER_S); /* in an hour */
        CHECK_INT(u.made, 0);
        CHECK_INT(u.alive, 2);
        CHECK(u.lived_ns > 7200 * NS_PER_S);
        if (life == 0)
            peer_unref(p);
        world_close();
        world_open();
        p = peers_by_token(world.trust, str_from(token));
        CHECK(p);
    }
    u = peer_usage(p, clock_wall() + 86400 * NS_PER_S * 2);
    CHECK_INT((u.lived_ns + NS_PER_S / 2) / NS_PER_S, 2 * 86400); /* two that live, a day each */
    world_close();
}

TEST(limits_hold_also_for_what_is_not_on_disk_yet)
{
    struct peer *p;

    write_bundle("version: 1\nlimits: { journeyman: { concurrent: 2 } }\n"
                 "tools:\n  make: { tier: 2, effect: write, creates: true }\n");
    world_open();
    p = new_peer();
    CHECK_INT(ask(p, "make", "{}", NULL).kind, VERDICT_ALLOW);
    CHECK_INT(ask(p, "make", "{}", NULL).kind, VERDICT_ALLOW);
    CHECK_INT(ask(p, "make", "{}", NULL).kind, VERDICT_RATE_LIMIT);
    peer_unref(p);
    world_close();
}

/* Live peers of this owner, that came as this actor, in the store. */
static void store_peers(const char *owner, const char *actor, int n)
{
    struct store_txn x;

    store_txn_begin(&x, control_store(fix.control));
    for (int i = 0; i < n; i++) {
        struct peer_record r = { .actor = { .kind = ACTOR_AGT },
                                 .uid = -1,
                                 .role = ROLE_JOURNEYMAN,
                                 .created_ns = clock_wall() };

        CHECK_OK(id_make("peer_", r.id, &e), e);
        crypto_sha256(str_from(r.id), r.hash);
        snprintf(r.owner, sizeof r.owner, "%s", owner);
        snprintf(r.actor.id, sizeof r.actor.id, "%s", actor);
        store_put_peer(&x, &r);
    }
    CHECK_OK(store_commit_now(&x, &e), e);
}

static int registered;

static void on_answer(struct peer_op *op, int r, const struct err *why)
{
    registered = r;
}

static int register_peer(const char *owner, const char *actor)
{
    struct caller who = { .actor = { .kind = ACTOR_AGT }, .verbs = VERBS_ALL };
    struct peer_op op = { .caller = &who, .uid = 1000, .role = ROLE_JOURNEYMAN, .done = on_answer };

    registered = 1;
    snprintf(who.owner, sizeof who.owner, "%s", owner);
    snprintf(who.actor.id, sizeof who.actor.id, "%s", actor);
    peers_register(world.trust, &op);
    WAIT_FOR(registered <= 0);
    peer_unref(op.peer);
    return registered;
}

TEST(an_owner_has_a_share_of_all_peers)
{
    world_open();
    store_peers("uid:1000", "uid:1000", PEERS_PER_OWNER_MAX - 1);
    world_close();
    world_open();
    CHECK_INT(register_peer("uid:1000", "uid:1000"), 0);
    CHECK_INT(register_peer("uid:1000", "uid:1000"), -ERR_QUOTA);
    CHECK_INT(register_peer("uid:1001", "uid:1001"), 0);
    world_close();
}

TEST(a_family_of_tokens_leaves_peers_to_others)
{
    world_open();
    store_token("tok_a", "uid:1000", "");
    store_token("tok_b", "uid:1000", "");
    store_peers("uid:1000", "tok_a", (int)quota_token_part(PEERS_PER_OWNER_MAX) - 1);
    world_close();
    world_open();
    CHECK_INT(register_peer("uid:1000", "tok_a"), 0);
    CHECK_INT(register_peer("uid:1000", "tok_a"), -ERR_QUOTA);
    CHECK_INT(register_peer("uid:1000", "tok_b"), 0);
    CHECK_INT(register_peer("uid:1000", "uid:1000"), 0);
    world_close();
}

TEST(a_family_of_an_administrators_tokens_has_an_owners_share_of_peers)
{
    world_open();
    store_token("tok_a", "uid:0", "");
    store_token("tok_b", "uid:0", "");
    store_peers("uid:0", "tok_a", PEERS_PER_OWNER_MAX - 1);
    world_close();
    world_open();
    CHECK_INT(register_peer("uid:0", "tok_a"), 0);
    CHECK_INT(register_peer("uid:0", "tok_a"), -ERR_QUOTA);
    CHECK_INT(register_peer("uid:0", "tok_b"), 0);
    CHECK_INT(register_peer("uid:0", "uid:0"), 0);
    world_close();
}

/* Of two sandboxes that the last of three tokens made, one of which has ended. */
TEST(what_tokens_use_counts_for_those_that_made_them)
{
    struct peer *first, *last;
    struct trust_usage u;
    struct sandbox *s;
    char ids[2][ID_MAX];

    world_open();
    store_token("tok_a", "uid:1000", "");
    store_token("tok_b", "uid:1000", "tok_a");
    store_token("tok_c", "uid:1000", "tok_b");
    world_close();
    world_open();
    first = new_peer_by("uid:1000", "tok_a");
    last = new_peer_by("uid:1000", "tok_c");
    for (int i = 0; i < 2; i++)
        create_as(last, ids[i]);
    s = find_sandbox(ids[0]);
    destroy(s);
    sandbox_unref(s);
    u = peer_usage(first, clock_wall());
    CHECK_INT(u.made, 2);
    CHECK_INT(u.alive, 1);
    u = peer_usage(first, clock_wall() + 2 * 86400 * NS_PER_S);
    CHECK_INT((u.lived_ns + NS_PER_S / 2) / NS_PER_S, 86400); /* of one that lives, within a day */
    peer_unref(first);
    peer_unref(last);
    world_close();
}
