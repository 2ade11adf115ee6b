/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/sandbox_token.h"

#include <stdio.h>

#include "edge/core/guard.h"
#include "edge/core/internal.h"
#include "edge/core/route.h"
#include "edge/core/shares.h"
#include "control/owner/tokens.h"
#include "lib/crypto/encode.h"
#include "lib/crypto/hash.h"
#include "lib/crypto/random.h"
#include "lib/crypto/secret.h"

/* --- the key that signs tokens: one per store --- */

#define KEY_SETTING "e2b.key"

static int make_token_key(struct api *a, struct err *e)
{
    struct buf text AUTO(buf_done) = BUF_INIT(2 * sizeof a->token_key + 1);
    struct store_txn t = { 0 };
    int r = crypto_random(a->token_key, sizeof a->token_key, e);

    if (r < 0)
        return r;
    crypto_hex((struct str){ (const char *)a->token_key, sizeof a->token_key }, &text);
    store_txn_begin(&t, control_store(a->control));
    store_set(&t, KEY_SETTING, text.p);
    r = store_commit_now(&t, e);
    crypto_wipe(text.p, text.n);
    return r;
}

int sandbox_tokens_open(struct api *a, struct err *e)
{
    struct store_query q = { .kind = STORE_SETTING, .text = STR(KEY_SETTING) };
    struct buf bytes AUTO(buf_done) = BUF_INIT(sizeof a->token_key + 1);
    int r;

    arena_init(&q.arena, 64 << 10);
    r = store_ask_now(control_store(a->control), &q, e);
    if (r >= 0 && !q.setting)
        r = make_token_key(a, e);
    else if (r >= 0 &&
             (crypto_unhex(str_from(q.setting), &bytes, e) < 0 || bytes.n != sizeof a->token_key))
        r = err_set(e, ERR_INVALID, "the setting " KEY_SETTING " in the store is not a valid key");
    else if (r >= 0)
        memcpy(a->token_key, bytes.p, sizeof a->token_key);
    arena_done(&q.arena);
    return err_wrap(e, r, "loading the key for tokens of sandboxes");
}

/* --- tokens --- */

void sandbox_token_sign(const struct api *a, const char *what,
                        char ret[static SANDBOX_TOKEN_CODE_TEXT])
{
    struct buf text AUTO(buf_done) = BUF_INIT(SANDBOX_TOKEN_CODE_TEXT);
    unsigned char code[CRYPTO_SHA256_SIZE];

    crypto_hmac_sha256((struct str){ (const char *)a->token_key, sizeof a->token_key },
                       str_from(what), code);
    crypto_hex((struct str){ (const char *)code, sizeof code }, &text);
    str_copy(buf_str(&text), ret, SANDBOX_TOKEN_CODE_TEXT);
}

/* A token ends with the random part of its holder's id. */
#define HOLDER_PREFIX "tok_"

void sandbox_token_make(const struct api *a, const char *what, const char *holder,
                        char ret[static SANDBOX_TOKEN_TEXT])
{
    char text[ID_MAX * 3 + 64], code[SANDBOX_TOKEN_CODE_TEXT];

    snprintf(text, sizeof text, "%s by %s", what, holder);
    sandbox_token_sign(a, text, code);
    snprintf(ret, SANDBOX_TOKEN_TEXT, "%s%s", code,
             strncmp(holder, HOLDER_PREFIX, 4) == 0 ? holder + 4 : "");
}

const struct token_record *sandbox_token_holder(const struct api *a, const char *what,
                                                struct str given)
{
    char holder[ID_MAX], right[SANDBOX_TOKEN_TEXT];

    if (given.n != SANDBOX_TOKEN_TEXT - 1)
        return NULL;
    snprintf(holder, sizeof holder, HOLDER_PREFIX "%.*s", ID_RANDOM_CHARS,
             given.p + SANDBOX_TOKEN_CODE_TEXT - 1);
    sandbox_token_make(a, what, holder, right);
    return crypto_equal(str_from(right), given) ? tokens_by_id(a->tokens, str_from(holder)) : NULL;
}

void sandbox_traffic_token(const struct call *c, const char *id,
                           char ret[static SANDBOX_TOKEN_TEXT])
{
    char what[ID_MAX + 16];

    snprintf(what, sizeof what, "traffic:%s", id);
    sandbox_token_make(c->api, what, c->caller.actor.id, ret);
}

const struct token_record *sandbox_traffic_holder(const struct api *a, const char *id,
                                                  struct str given)
{
    char what[ID_MAX + 16];

    snprintf(what, sizeof what, "traffic:%s", id);
    return sandbox_token_holder(a, what, given);
}

struct link_search {
    const struct sandbox_record *box;
    sandbox_link_fn *fits;
    void *user;
    unsigned tried;
    const struct token_record *found;
};

static void try_holder(void *user, const struct token_record *t)
{
    struct link_search *s = user;

    if (s->found || s->tried >= SANDBOX_LINK_HOLDERS || strcmp(t->owner, s->box->owner) != 0)
        return;
    s->tried++;
    if (s->fits(s->user, t->id))
        s->found = t;
}

const struct token_record *sandbox_link_holder(const struct call *c, sandbox_link_fn *fits,
                                               void *user)
{
    struct link_search s = { .box = sandbox_view(c->sandbox).record, .fits = fits, .user = user };

    shares_count_link_checks(c, 1);
    if (s.box->maker[0] && fits(user, s.box->maker))
        return tokens_by_id(c->api->tokens, str_from(s.box->maker));
    tokens_each(c->api->tokens, try_holder, &s);
    shares_count_link_checks(c, s.tried);
    return s.found ? tokens_by_id(c->api->tokens, str_from(s.found->id)) : NULL;
}

bool sandbox_token_enter(struct call *c, const struct token_record *holder)
{
    const struct sandbox_record *r = sandbox_view(c->sandbox).record;

    if (!call_by_record(c, holder))
        return false;
    if (!caller_sees(&c->caller, r->owner, &r->labels))
        return call_refuse(c, "the API key of this token can no longer see the sandbox");
    c->caller.verbs &= VERB_BIT(VERB_READ) | VERB_BIT(VERB_EXEC) | VERB_BIT(VERB_FILES);
    c->caller.host_paths = false;
    if (!(c->route->flags & ROUTE_QUIET))
        sandbox_touch(c->sandbox);
    return guard_identify(c) && call_may_use(c);
}
