/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/tokens: tokens, never with more rights than their maker. */
#include <limits.h>
#include <stdio.h>

#include "edge/core/answers.h"
#include "edge/core/domain.h"
#include "edge/core/internal.h"
#include "edge/core/operation.h"
#include "edge/rest/routes.h"
#include "edge/rest/token_terms.h"
#include "base/clock.h"
#include "base/own.h"
#include "control/owner/tokens.h"
#include "lib/http/origin.h"
#include "domain/policy/egress_ceiling.h"
#include "trust/policy.h"
#include "trust/trust.h"

struct token_answer {
    const char *egress;
    const struct token_record *record;
    /* only in the answer to its creation: */
    const char *token, *e2b_url, *e2b_domain, *authority, *daytona_url;
};

static void write_verbs(struct json_writer *w, const char *name, const void *answer)
{
    const struct token_answer *a = answer;

    json_field_begin_array(w, name);
    for (unsigned v = 0; v < TOKEN_VERB_COUNT_; v++)
        if (a->record->verbs & VERB_BIT(v))
            json_put_str(w, str_from(token_verb_names[v]));
    json_end_array(w);
}

static void write_terms(struct json_writer *w, const char *name, const void *answer)
{
    const struct token_terms *t = &((const struct token_answer *)answer)->record->terms;

    json_key(w, str_from(name));
    if (strcmp(name, "limits") == 0)
        terms_write_limits(w, t);
    else
        terms_write_capabilities(w, t);
}

#define AT(member) JSON_AT(struct token_answer, member)
#define RECORD(member)                                                                             \
    .via = offsetof(struct token_answer, record), JSON_AT(struct token_record, member)

static const struct json_field token_answer_fields[] = {
    { "id", JSON_KIND_CHARS, RECORD(id), .required = true },
    { "name", JSON_KIND_CHARS, RECORD(name), .required = true },
    { "owner", JSON_KIND_CHARS, RECORD(owner), .required = true },
    { "maker", JSON_KIND_CHARS, RECORD(maker), .optional = true },
    { "actor", JSON_KIND_ENUM, RECORD(actor), .required = true, .names = actor_kind_names },
    { "verbs", JSON_KIND_TEXTS, .required = true, .write = write_verbs },
    { "labels", JSON_KIND_MAP, RECORD(labels), .required = true },
    { "role", JSON_KIND_ENUM, RECORD(role), .names = role_names },
    { "egress", JSON_KIND_TEXT, AT(egress), .names = egress_reach_names },
    { "gateway", JSON_KIND_BOOL, RECORD(gateway) },
    { "preset", JSON_KIND_CHARS, RECORD(terms.preset), .optional = true },
    { "limits", JSON_KIND_OBJECT, .required = true, .write = write_terms },
    { "capabilities", JSON_KIND_OBJECT, .required = true, .write = write_terms },
    { "created_at", JSON_KIND_TIME, RECORD(created_ns), .required = true },
    { "expires_at", JSON_KIND_TIME, RECORD(expires_ns) },
    { "revoked_at", JSON_KIND_TIME, RECORD(revoked_ns) },
    { "token", JSON_KIND_TEXT, AT(token), .required = true },
    { "e2b_url", JSON_KIND_TEXT, AT(e2b_url) },
    { "e2b_domain", JSON_KIND_TEXT, AT(e2b_domain) },
    { "authority", JSON_KIND_TEXT, AT(authority) },
    { "daytona_url", JSON_KIND_TEXT, AT(daytona_url) },
};
enum { ONLY_NEW_FIELDS = 5 };
static const struct json_shape new_token_answer = { "NewToken", JSON_FIELDS(token_answer_fields) };
static const struct json_shape token_answer = { "Token", token_answer_fields,
                                                COUNT_OF(token_answer_fields) - ONLY_NEW_FIELDS };

static struct token_answer answer_of_token(const struct token_record *r)
{
    return (struct token_answer){
        .egress = egress_reach_names[r->egress ? r->egress - 1 : EGRESS_REACH_LOCAL],
        .record = r,
    };
}

/* --- list --- */

struct token_list {
    const struct call *call;
    struct json_writer *w;
};

static void on_listed_token(void *user, const struct token_record *r)
{
    const struct token_list *l = user;
    const struct token_answer a = answer_of_token(r);

    if (caller_sees(&l->call->caller, r->owner, &r->labels))
        json_put_shape(l->w, &token_answer, &a);
}

static void write_tokens(struct json_writer *w, const void *call)
{
    struct token_list l = { .call = call, .w = w };

    tokens_each(l.call->api->tokens, on_listed_token, &l);
}

static const struct json_shape token_list = { "TokenList",
                                              JSON_LIST("tokens", "Token", write_tokens) };

/* --- create --- */

struct token_request {
    const char *name;
    struct json_strs verbs;
    struct json_map labels;
    int64_t ttl_ns;
    enum actor_kind actor;
    enum role role;
    unsigned egress; /* enum egress_reach */
    bool gateway, e2b, daytona;
    struct terms_request terms;
};

#define TERMS .offset = offsetof(struct token_request, terms), .size = sizeof(struct terms_request)

static const struct json_field token_fields[] = {
    { "name", JSON_KIND_STR, JSON_AT(struct token_request, name), .required = true, .min = 1,
      .max = 63, .doc = "Purpose of the token." },
    { "verbs", JSON_KIND_STRS, JSON_AT(struct token_request, verbs), .max = TOKEN_VERB_COUNT_,
      .doc = "Allowed operations: read, create, exec, files, extend, destroy, admin. Default: the "
             "verbs of its maker without admin." },
    { "labels", JSON_KIND_MAP, JSON_AT(struct token_request, labels), .max = REQUEST_LABELS_MAX,
      .doc = "Restricts the token to sandboxes with all of these labels; sandboxes that it creates "
             "get them." },
    { "ttl", JSON_KIND_DURATION, JSON_AT(struct token_request, ttl_ns), .min = 1000000000,
      .max = INT64_C(315360000000000000), .preset = "30d",
      .doc = "Lifetime of the token; at most that of the token that makes it." },
    { "actor", JSON_KIND_ENUM, JSON_AT(struct token_request, actor), .names = actor_kind_names,
      .preset = "agt", .doc = "Kind of actor in audit records." },
    { "role", JSON_KIND_ENUM, JSON_AT(struct token_request, role), .names = role_names,
      .preset = "journeyman",
      .doc = "Role of the holder's sessions; a master decides calls that wait for approval." },
    { "egress", JSON_KIND_ENUM, JSON_AT(struct token_request, egress), .names = egress_reach_names,
      .preset = "local",
      .doc = "Ceiling for the egress of its sandboxes, within those of the configuration and of "
             "its maker; `local` adds no ceiling." },
    { "gateway", JSON_KIND_BOOL, JSON_AT(struct token_request, gateway),
      .doc = "Whether the holder is a gateway that may send X-Trust-Level for its callers." },
    { "preset", JSON_KIND_STR, JSON_AT(struct token_request, terms.preset),
      .max = TOKEN_PRESET_MAX - 1,
      .doc = "Preset of limits and capabilities: agent (those of the role), ci, e2b or daytona "
             "(for SDKs). Default with `e2b` or `daytona`: the preset of that name." },
    { "limits", JSON_KIND_OBJECT, TERMS, .fields = terms_limit_fields,
      .field_count = TERMS_LIMIT_FIELDS,
      .doc = "Limits of the holder over all interfaces; defaults are the role's limits in the "
             "policy." },
    { "capabilities", JSON_KIND_OBJECT, TERMS, .fields = terms_capability_fields,
      .field_count = TERMS_CAPABILITY_FIELDS,
      .doc = "Capabilities of its sandboxes without a master's approval." },
    { "e2b", JSON_KIND_BOOL, JSON_AT(struct token_request, e2b),
      .doc = "Give the token the format of an E2B key, for E2B clients." },
    { "daytona", JSON_KIND_BOOL, JSON_AT(struct token_request, daytona),
      .doc = "Include the URL for Daytona clients in the answer." },
};

struct token_call {
    struct call *call;
    struct token_op op;
    bool daytona;
};

static void release_token_call(void *state)
{
    struct token_call *t = state;

    explicit_bzero(t->op.secret, sizeof t->op.secret);
}

static struct token_call *new_token_call(struct call *c, void (*done)(struct token_op *op, int r,
                                                                      const struct err *e))
{
    struct token_call *t = call_state(c, sizeof *t, release_token_call);

    t->call = call_ref(c);
    t->op.done = done;
    return t;
}

static void answer_new_token(struct token_call *t)
{
    const struct http_peer *peer = http_peer(t->call->x);
    char url[ORIGIN_URL], daytona[ORIGIN_URL + 16], address[DOMAIN_ADDRESS], authority[PATH_MAX];
    bool known = origin_url(peer->is_unix ? &t->call->api->tcp : &peer->local, url);
    const struct config *config = t->call->api->config;
    struct token_answer a = answer_of_token(&t->op.record);

    a.token = t->op.secret;
    /* the domain, if there is one and the client uses it or has no other address */
    if (t->op.e2b && domain_address(config, address) && !(known && origin_is_own(t->call->x))) {
        a.e2b_domain = address;
        snprintf(authority, sizeof authority, "%s/tls/%s/authority.pem", config->state,
                 config->domain.name);
        a.authority = config->domain.certificate ? NULL : authority;
    } else if (t->op.e2b && known) {
        a.e2b_url = url;
    }
    if (t->daytona && known) {
        snprintf(daytona, sizeof daytona, "%s/daytona", url);
        a.daytona_url = daytona;
    }
    call_answer_as(t->call, 201, &new_token_answer, &a);
}

static void on_token_created(struct token_op *op, int r, const struct err *e)
{
    struct token_call *t = container_of(op, struct token_call, op);

    if (r < 0)
        call_fail(t->call, e);
    else if (t->call->x)
        answer_new_token(t);
    call_unref(t->call);
}

/* Reads the verbs; the default is the maker's verbs without admin, so that administrator rights are
 * always explicit. */
static int read_token_verbs(const struct json_strs *words, const struct caller *who, uint64_t *ret,
                            struct err *e)
{
    *ret = words->n ? 0 : who->verbs & VERBS_ALL & ~VERB_BIT(VERB_ADMIN);
    for (size_t i = 0; i < words->n; i++) {
        unsigned v = 0;

        while (v < TOKEN_VERB_COUNT_ && strcmp(words->p[i], token_verb_names[v]) != 0)
            v++;
        if (v == TOKEN_VERB_COUNT_)
            return err_set(e, ERR_INVALID, "verbs[%zu]: there is no verb '%.20s'", i, words->p[i]);
        *ret |= VERB_BIT(v);
    }
    return 0;
}

/* A token's labels are required on the tokens made with it. */
static int check_token_labels(const struct json_map *asked, const struct json_map *own,
                              struct err *e)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < asked->n; i++) {
        r = label_check(str_from(asked->p[i].key), str_from(asked->p[i].value), e);
        if (r >= 0 && label_is_reserved(asked->p[i].key))
            r = err_set(e, ERR_DENIED, "labels.%s: reserved for the daemon", asked->p[i].key);
    }
    for (size_t i = 0; r >= 0 && i < own->n; i++) {
        size_t k = 0;

        while (k < asked->n && (strcmp(asked->p[k].key, own->p[i].key) != 0 ||
                                strcmp(asked->p[k].value, own->p[i].value) != 0))
            k++;
        if (k == asked->n)
            r = err_set(e, ERR_DENIED, "labels: must include %s=%s, like the token that makes it",
                        own->p[i].key, own->p[i].value);
    }
    return r;
}

static int check_maker_rights(const struct caller *who, const struct token_request *q,
                              uint64_t verbs, struct err *e)
{
    if (verbs & ~who->verbs)
        return err_set(e, ERR_DENIED, "verbs: a token cannot have more verbs than its maker");
    if (q->role > who->role)
        return err_set(e, ERR_DENIED,
                       "role: a caller with the role %s cannot make a token with the role %s",
                       role_names[who->role], role_names[q->role]);
    if (q->gateway && !who->admin)
        return err_set(e, ERR_DENIED, "gateway: only an administrator can make gateway tokens");
    if (!who->trusted)
        return err_set(e, ERR_DENIED, "an untrusted caller cannot make tokens");
    return check_token_labels(&q->labels, &who->labels, e);
}

/* Reads the terms: unlimited for administrators, within the maker's for tokens. */
static int read_token_terms(struct call *c, struct token_request *q, struct token_terms *ret,
                            struct err *e)
{
    static const struct trust_limits none;
    const struct trust_bundle *b = trust_current(c->api->trust)->bundle;
    const struct token_record *maker =
        c->caller.by_token && !c->caller.admin
            ? tokens_by_id(c->api->tokens, str_from(c->caller.actor.id))
            : NULL;
    int r;

    if (!q->terms.preset)
        q->terms.preset = q->e2b ? "e2b" : q->daytona ? "daytona" : NULL;
    r = terms_read(&q->terms, &c->arena, ret, e);
    if (r < 0 || !c->caller.by_token || c->caller.admin)
        return r;
    if (!maker)
        return err_set(e, ERR_DENIED, "the token of this request has ended");
    return terms_limit(&q->terms, &maker->terms, b ? &b->limits[maker->role] : &none, ret, e);
}

static void rest_create_token(struct call *c)
{
    struct token_request q = { 0 };
    struct token_record *r;
    struct token_call *t;
    struct token_terms terms;
    uint64_t verbs;
    struct err e;

    if (!call_read(c, &q))
        return;
    if (read_token_verbs(&q.verbs, &c->caller, &verbs, &e) < 0 ||
        check_maker_rights(&c->caller, &q, verbs, &e) < 0 ||
        read_token_terms(c, &q, &terms, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    t = new_token_call(c, on_token_created);
    t->op.e2b = q.e2b;
    t->daytona = q.daytona;
    r = &t->op.record;
    snprintf(r->name, sizeof r->name, "%s", q.name);
    snprintf(r->owner, sizeof r->owner, "%s", c->caller.owner);
    if (c->caller.by_token)
        (void)str_copy(str_from(c->caller.actor.id), r->maker, sizeof r->maker);
    r->actor = q.actor;
    r->verbs = verbs;
    r->labels = q.labels;
    r->gateway = q.gateway;
    r->role = q.role;
    /* A token's egress ceiling also limits the tokens made with it. */
    r->egress = q.egress == EGRESS_REACH_LOCAL ? 0 : q.egress + 1;
    if (c->caller.egress && (!r->egress || r->egress > c->caller.egress))
        r->egress = c->caller.egress;
    r->terms = terms;
    r->expires_ns = clock_wall() + q.ttl_ns;
    tokens_create(c->api->tokens, &c->caller.actor, &t->op);
}

/* --- revoke --- */

static void on_token_revoked(struct token_op *op, int r, const struct err *e)
{
    call_settle(container_of(op, struct token_call, op)->call, r, e);
}

/* Keeps the connection of a token that revokes itself, or its maker, open for the answer. */
static void on_own_token_ended(struct http_exchange *x)
{
}

static void rest_revoke_token(struct call *c)
{
    struct token_call *t;

    if (!id_valid("tok_", c->params[0])) {
        call_fail_missing(c, "token", c->params[0]);
        return;
    }
    t = new_token_call(c, on_token_revoked);
    http_on_ended(c->x, on_own_token_ended);
    str_copy(c->params[0], t->op.record.id, sizeof t->op.record.id);
    tokens_revoke(c->api->tokens, &c->caller, &t->op);
}

const struct route routes_tokens[] = {
    { H1_GET, VERB_ADMIN, "/v1/tokens", 0, call_answer_route, "List tokens", .answer = "TokenList",
      .with = &token_list },
    { H1_POST, VERB_ADMIN, "/v1/tokens", ROUTE_JSON, rest_create_token, "Make a token",
      ROUTE_FIELDS(token_fields), .answer = "NewToken", .status = 201 },
    { H1_DELETE, VERB_ADMIN, "/v1/tokens/{id}", 0, rest_revoke_token, "Revoke a token",
      .status = 204 },
    { .path = NULL },
};

const struct json_shape *const answers_tokens[] = { &token_answer, &token_list, &new_token_answer,
                                                    NULL };
