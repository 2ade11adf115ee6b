/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <stdio.h>

#include "base/clock.h"
#include "lib/crypto/hash.h"
#include "lib/json/reader.h"

struct world world = { .setup = { .silence_ns = 3600 * NS_PER_S, .grace_ns = 3600 * NS_PER_S } };
char last_token[PEER_TOKEN_MAX];

static struct arena arena = ARENA_INIT(64 << 20);

void write_bundle(const char *yaml)
{
    if (!fix.scratch.path[0]) { /* the plane makes it */
        plane_open();
        plane_close();
    }
    snprintf(world.bundle, sizeof world.bundle, "%s/bundle.yaml", fix.scratch.path);
    make_file(fix.scratch.dir, "bundle.yaml", yaml);
    world.setup.bundle = world.bundle;
}

void world_open(void)
{
    plane_open();
    CHECK_OK(tokens_open(fix.control, &world.tokens, &e), e);
    world.setup.control = fix.control;
    world.setup.tokens = world.tokens;
    CHECK_OK(trust_open(&world.setup, &world.trust, &e), e);
}

void world_close(void)
{
    trust_close(world.trust);
    world.trust = NULL;
    tokens_close(world.tokens);
    plane_close();
}

const struct json *tree(const char *text)
{
    const struct json *v;

    CHECK_OK(json_read(str_from(text), (struct json_limits){ .bytes = 1 << 20, .depth = 16 },
                       &arena, &v, &e),
             e);
    return v;
}

static int done;

static void on_registered(struct peer_op *op, int r, const struct err *why)
{
    if (r < 0)
        FAIL("registering: %s", why->msg);
    done++;
}

static struct peer *make_peer(const char *owner, const char *actor, enum role role)
{
    struct caller who = { .actor = { .kind = ACTOR_AGT }, .verbs = VERBS_ALL };
    struct peer_op op = {
        .caller = &who, .uid = 1000, .role = role, .client = "test\n1", .done = on_registered
    };
    int before = done;

    snprintf(who.owner, sizeof who.owner, "%s", owner);
    snprintf(who.actor.id, sizeof who.actor.id, "%s", actor);
    peers_register(world.trust, &op);
    CHECK_INT(done, before);
    WAIT_FOR(done > before);
    memcpy(last_token, op.token, sizeof last_token);
    return op.peer;
}

struct peer *new_peer_of(const char *owner, enum role role)
{
    return make_peer(owner, owner, role);
}

struct peer *new_peer_by(const char *owner, const char *token)
{
    return make_peer(owner, token, ROLE_JOURNEYMAN);
}

struct peer *new_peer(void)
{
    return new_peer_of("uid:1000", ROLE_JOURNEYMAN);
}

static int asked;

static void on_verdict(struct trust_op *op, int r, const struct err *why)
{
    if (r < 0)
        FAIL("asking: %s", why->msg);
    asked++;
}

struct verdict ask(struct peer *p, const char *tool, const char *args,
                   const struct trust_capabilities *sandbox)
{
    return ask_as(p, p->record.role, tool, args, sandbox);
}

struct verdict ask_as(struct peer *p, enum role role, const char *tool, const char *args,
                      const struct trust_capabilities *sandbox)
{
    struct trust_op op = { .ask = { .tool = str_from(tool),
                                    .args = args ? tree(args) : NULL,
                                    .sandbox = sandbox,
                                    .peer = p,
                                    .role = role },
                           .done = on_verdict };
    int before = asked;

    trust_request(world.trust, &op);
    CHECK_INT(asked, before);
    WAIT_FOR(asked > before);
    CHECK(id_valid("aud_", str_from(op.verdict.audit_id)));
    return op.verdict;
}

void wait_events(const char *type, size_t n)
{
    while (count_events(type) != n)
        CHECK_OK(loop_run_once(&fix.loop, 10 * NS_PER_MS, &e), e);
}

void store_token(const char *id, const char *owner, const char *maker)
{
    struct token_record k = { .name = "x", .created_ns = 1, .verbs = VERBS_ALL };
    struct store_txn x;

    k.terms = TOKEN_TERMS_NONE;
    k.role = ROLE_JOURNEYMAN;
    snprintf(k.id, sizeof k.id, "%s", id);
    snprintf(k.owner, sizeof k.owner, "%s", owner);
    snprintf(k.maker, sizeof k.maker, "%s", maker);
    crypto_sha256(str_from(id), k.hash);
    store_txn_begin(&x, control_store(fix.control));
    store_put_token(&x, &k);
    CHECK_OK(store_commit_now(&x, &e), e);
}

static int created;

static void on_created(struct create_op *op, int r, const struct err *why)
{
    if (r < 0)
        FAIL("creating: %s", why->msg);
    created++;
}

void create_as(struct peer *p, char ret[static ID_MAX])
{
    struct create_request q = { .profile = "profile.fake" };
    struct caller who;
    struct create_op op = { .caller = &who, .request = &q, .done = on_created };
    int before = created;

    peer_caller(p, &who);
    who.by_token = str_starts(str_from(who.actor.id), STR("tok_"));
    control_create(fix.control, &op);
    WAIT_FOR(created > before);
    CHECK(op.record);
    memcpy(ret, op.record->id, ID_MAX);
    arena_done(&op.arena);
}
