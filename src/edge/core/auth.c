/* Who asks: by the kernel's word on a unix socket, by a token on TCP. */
#include <stdio.h>
#include <strings.h>

#include "api/guard.h"
#include "api/inside.h"
#include "api/replay.h"
#include "api/route.h"
#include "control/owner_share.h"
#include "control/tokens.h"
#include "http/origin.h"
#include "model/owner.h"
#include "trust/trust.h"

#define NO_TOKEN "the token is unknown, expired or revoked"

static bool is_master(const struct config *config, uid_t uid)
{
    const struct json_strs *all = &config->trust.masters;
    uint64_t n;

    for (size_t i = 0; i < all->n; i++)
        if (str_to_u64(str_from(all->p[i]), &n) && n == uid)
            return true;
    return false;
}

static void by_uid(struct call *c, uid_t uid)
{
    struct caller *who = &c->caller;

    snprintf(who->owner, sizeof who->owner, "uid:%u", (unsigned)uid);
    who->actor.kind = ACTOR_ADM;
    snprintf(who->actor.id, sizeof who->actor.id, "uid:%u", (unsigned)uid);
    who->verbs = VERBS_ALL;
    who->admin = owner_is_administrator(who->owner, c->api->owner);
    who->host_paths = true; /* they are opened with this user's own rights */
    who->role = who->admin || is_master(c->api->config, uid)
                    ? ROLE_MASTER
                    : (enum role)c->api->config->trust.role;
    who->trusted = true;
}

static bool same_name(struct str a, const char *b)
{
    return a.n == strlen(b) && strncasecmp(a.p, b, a.n) == 0;
}

/* What a gateway may say of a caller, and what it leaves of the token's rights. */
static const struct {
    const char *name;
    uint64_t verbs;
} trusts[] = {
    [TRUST_APPRENTICE] = { "apprentice", VERB_BIT(VERB_READ) },
    [TRUST_JOURNEYMAN] = { "journeyman",
                           VERBS_ALL & ~(VERB_BIT(VERB_ADMIN) | VERB_BIT(VERB_DESTROY)) },
    [TRUST_MASTER] = { "master", VERBS_ALL },
};

/* The level that the header names; the lowest for what is no level, or said twice. */
static enum config_trust read_trust(const struct call *c, struct str level)
{
    size_t i = COUNT_OF(trusts) - 1;

    if (h1_count(&http_request(c->x)->head, STR("X-Trust-Level")) > 1)
        return TRUST_APPRENTICE;
    while (i > 0 && !same_name(level, trusts[i].name))
        i--;
    return (enum config_trust)i;
}

/* Believed from a gateway on this machine only, up to what the configuration gives it, and only
 * downwards. From anybody else, also who has no token, it is ignored, and makes the caller an
 * untrusted one. */
static void lower_trust(struct call *c, const struct token_record *t)
{
    struct str level = call_header(c, "X-Trust-Level");
    enum config_trust trust, most = c->api->config->gateway.trust;

    if (!level.p)
        return;
    c->caller.trusted = c->caller.host_paths = false;
    c->caller.role = ROLE_APPRENTICE;
    if (!t || !t->gateway || !origin_is_loopback(&http_peer(c->x)->remote))
        return;
    trust = read_trust(c, level);
    trust = trust < most ? trust : most;
    c->caller.verbs &= trusts[trust].verbs;
    c->caller.role = (enum role)trust < t->role ? (enum role)trust : t->role;
    if (!caller_may(&c->caller, VERB_ADMIN))
        c->caller.admin = false;
}

/* The token may be gone before the request is. */
static bool copy_labels(struct call *c, const struct json_map *from)
{
    struct json_pair *to = arena_array(&c->own, from->n + 1, sizeof *to);

    for (size_t i = 0; to && i < from->n; i++) {
        to[i].key = arena_dup(&c->own, str_from(from->p[i].key));
        to[i].value = arena_dup(&c->own, str_from(from->p[i].value));
        if (!to[i].key || !to[i].value)
            return false;
    }
    c->caller.labels = (struct json_map){ to, from->n };
    return to;
}

void call_put_on_record(struct call *c, const char *type, const char *reason)
{
    static const struct actor nobody = { .kind = ACTOR_AGT };
    const struct trust_refusal x = { .type = type,
                                     .peer = guard_peer(c),
                                     .owner = c->caller.owner,
                                     .actor = c->caller.owner[0] ? &c->caller.actor : &nobody,
                                     .tool = str_from(c->route->path),
                                     .reason = reason,
                                     .audit = c->audit };

    if (id_make("aud_", c->audit, NULL) >= 0)
        trust_refused(c->api->trust, &x);
}

static bool by_bearer(struct call *c)
{
    struct str given = call_header(c, "Authorization");

    if (given.n >= 7 && strncasecmp(given.p, "Bearer ", 7) == 0)
        return call_by_token(c, (struct str){ given.p + 7, given.n - 7 });
    call_fail_with(c, 401, "unauthenticated",
                   "send Authorization: Bearer TOKEN; `sandboxer token create` makes one");
    return false;
}

bool call_by_token(struct call *c, struct str secret)
{
    const struct token_record *t = tokens_find(c->api->tokens, secret);

    if (!t) {
        call_put_on_record(c, "auth.refused", NO_TOKEN);
        call_fail_with(c, 401, "unauthenticated", NO_TOKEN);
        return false;
    }
    return call_by_record(c, t);
}

bool call_by_record(struct call *c, const struct token_record *t)
{
    snprintf(c->caller.owner, sizeof c->caller.owner, "%s", t->owner);
    c->caller.actor.kind = t->actor;
    snprintf(c->caller.actor.id, sizeof c->caller.actor.id, "%s", t->id);
    c->caller.verbs = t->verbs;
    c->caller.role = t->role;
    c->caller.egress = t->egress;
    c->caller.by_token = true;
    snprintf(c->caller.family, sizeof c->caller.family, "%s", t->family);
    c->caller.expires_ns = t->expires_ns;
    c->caller.trusted = true;
    if (!copy_labels(c, &t->labels)) {
        call_fail_with(c, 413, "too_big", "the token's labels are too long");
        return false;
    }
    /* Whatever its verbs: it stands for its owner, and cannot see more than that. */
    c->caller.host_paths = false; /* a token has no user of this machine at its other end */
    c->caller.admin =
        caller_may(&c->caller, VERB_ADMIN) && owner_is_administrator(t->owner, c->api->owner);
    lower_trust(c, t);
    return true;
}

bool call_may_use(struct call *c)
{
    char text[128];

    if ((c->route->flags & ROUTE_ADMIN) && !c->caller.admin) {
        call_fail_with(c, 403, "denied", "this is about everybody: for administrators only");
        return false;
    }
    if (caller_may(&c->caller, c->route->verb))
        return true;
    snprintf(text, sizeof text, "this token does not allow '%s'", token_verb_names[c->route->verb]);
    call_fail_with(c, 403, "denied", text);
    return false;
}

/* Which web pages may ask, under which names of ours. */
static bool origin_may_ask(struct call *c)
{
    const char *domain = c->api->config->domain.name;
    struct domain_port port;

    if (origin_is_ours(c->x) || domain_is_ours(c))
        return true;
    if (!(c->route->flags & ROUTE_NULL_ORIGIN) || !str_eq(call_header(c, "Origin"), STR("null")))
        return false;
    return origin_host_is_ours(c->x) ||
           (domain && domain_read(http_request(c->x)->host.name, str_from(domain), &port));
}

bool call_authenticate(struct call *c)
{
    const struct http_peer *p = http_peer(c->x);

    if (!origin_may_ask(c)) {
        call_fail_with(c, 403, "denied", "Host and Origin must name the address we listen on");
        return false;
    }
    switch (replay_identify(c)) {
    case REPLAY_KNOWN:
        return call_may_use(c);
    case REPLAY_REFUSED:
        return false;
    case REPLAY_NONE:
        break;
    }
    if (c->route->face && c->route->face->authenticate)
        return c->route->face->authenticate(c);
    if (p->is_unix) {
        by_uid(c, p->cred.uid);
        lower_trust(c, NULL);
        return guard_identify(c) && call_may_use(c);
    }
    if (c->route->flags & ROUTE_OPEN)
        return true;
    return by_bearer(c) && guard_identify(c) && call_may_use(c);
}
