/* SPDX-License-Identifier: Apache-2.0 */
/* Authenticates callers: by peer credentials on a unix socket, by token on TCP. */
#include <stdio.h>
#include <strings.h>

#include "edge/core/dialect.h"
#include "edge/core/guard.h"
#include "edge/core/internal.h"
#include "edge/core/replay.h"
#include "control/owner/tokens.h"
#include "lib/http/origin.h"
#include "domain/model/owner.h"
#include "trust/trust.h"

#define NO_TOKEN "the token is unknown, expired or revoked"

static bool is_master_uid(const struct config *config, uid_t uid)
{
    const struct json_strs *all = &config->trust.masters;
    uint64_t n;

    for (size_t i = 0; i < all->n; i++)
        if (str_to_u64(str_from(all->p[i]), &n) && n == uid)
            return true;
    return false;
}

static void authenticate_uid(struct call *c, uid_t uid)
{
    struct caller *who = &c->caller;

    snprintf(who->owner, sizeof who->owner, "uid:%u", (unsigned)uid);
    who->actor.kind = ACTOR_ADM;
    snprintf(who->actor.id, sizeof who->actor.id, "uid:%u", (unsigned)uid);
    who->verbs = VERBS_ALL;
    who->admin = owner_is_administrator(who->owner, c->api->owner);
    who->host_paths = true; /* paths are opened with the rights of this user */
    who->role = who->admin || is_master_uid(c->api->config, uid)
                    ? ROLE_MASTER
                    : (enum role)c->api->config->trust.role;
    who->trusted = true;
}

/* Trust levels that a gateway may assert for a caller, and the verbs of the token that each level
 * keeps. */
static const struct {
    const char *name;
    uint64_t verbs;
} trusts[] = {
    [TRUST_APPRENTICE] = { "apprentice", VERB_BIT(VERB_READ) },
    [TRUST_JOURNEYMAN] = { "journeyman",
                           VERBS_ALL & ~(VERB_BIT(VERB_ADMIN) | VERB_BIT(VERB_DESTROY)) },
    [TRUST_MASTER] = { "master", VERBS_ALL },
};

/* The level that the header names; the lowest for an unknown level or a repeated header. */
static enum config_trust read_trust_level(const struct call *c, struct str level)
{
    size_t i = COUNT_OF(trusts) - 1;

    if (h1_count(&http_request(c->x)->head, STR("X-Trust-Level")) > 1)
        return TRUST_APPRENTICE;
    while (i > 0 && !h1_same(level, str_from(trusts[i].name)))
        i--;
    return (enum config_trust)i;
}

/* Applies X-Trust-Level. Only a gateway on this machine may send it; it can lower rights, never
 * raise them, up to the level that the configuration grants the gateway. From every other client,
 * with or without a token, the level is ignored and the caller becomes untrusted. */
static void apply_trust_level(struct call *c, const struct token_record *t)
{
    struct str level = call_header(c, "X-Trust-Level");
    enum config_trust trust, most = c->api->config->gateway.trust;

    if (!level.p)
        return;
    c->caller.trusted = c->caller.host_paths = false;
    c->caller.role = ROLE_APPRENTICE;
    if (!t || !t->gateway || !origin_is_loopback(&http_peer(c->x)->remote))
        return;
    trust = read_trust_level(c, level);
    trust = trust < most ? trust : most;
    c->caller.verbs &= trusts[trust].verbs;
    c->caller.role = (enum role)trust < t->role ? (enum role)trust : t->role;
    if (!caller_may(&c->caller, VERB_ADMIN))
        c->caller.admin = false;
}

void call_record_refusal(struct call *c, const char *type, const char *reason)
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

bool call_refuse(struct call *c, const char *why)
{
    return call_fail_with(c, 401, "unauthenticated", "%s", why);
}

struct str call_bearer(const struct call *c)
{
    struct str given = call_header(c, "Authorization");

    if (given.n > 7 && strncasecmp(given.p, "Bearer ", 7) == 0)
        return (struct str){ given.p + 7, given.n - 7 };
    return (struct str){ NULL, 0 };
}

bool call_by_token(struct call *c, struct str secret)
{
    const struct token_record *t = tokens_find(c->api->tokens, secret);

    if (!t) {
        call_record_refusal(c, "auth.refused", NO_TOKEN);
        return call_refuse(c, NO_TOKEN);
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
    /* copied: the token can be revoked before the request ends */
    c->caller.labels = t->labels;
    if (!json_map_copy(&c->caller.labels, &c->own))
        return call_fail_with(c, 413, "too_big",
                              "the labels of the token need more memory than the %zu bytes of a "
                              "request; make a token with fewer labels",
                              c->own.max);
    /* Even with the verb admin, a token acts for its owner and sees no other owner's objects. */
    c->caller.host_paths = false; /* no local user is known behind a token */
    c->caller.admin =
        caller_may(&c->caller, VERB_ADMIN) && owner_is_administrator(t->owner, c->api->owner);
    apply_trust_level(c, t);
    return true;
}

bool call_may_use(struct call *c)
{
    if ((c->route->flags & ROUTE_ADMIN) && !c->caller.admin)
        return call_fail_with(c, 403, "denied",
                              "this endpoint requires administrator rights (it covers all owners)");
    if (caller_may(&c->caller, c->route->verb))
        return true;
    return call_fail_with(c, 403, "denied", "this token does not allow '%s'",
                          token_verb_names[c->route->verb]);
}

/* Whether a web page of this Origin may send requests to the Host it named. */
static bool origin_is_allowed(struct call *c)
{
    const char *domain = c->api->config->domain.name;
    struct domain_port port;

    if (origin_is_own(c->x) || domain_allows_origin(c))
        return true;
    if (!(c->route->flags & ROUTE_NULL_ORIGIN) || !str_eq(call_header(c, "Origin"), STR("null")))
        return false;
    return origin_host_is_own(c->x) ||
           (domain && domain_read(http_request(c->x)->host.name, str_from(domain), &port));
}

bool call_authenticate(struct call *c)
{
    const struct http_peer *p = http_peer(c->x);
    enum replay_answer replay;
    struct str token;

    if (!origin_is_allowed(c))
        return call_fail_with(c, 403, "denied",
                              "Host and Origin must name an address that the daemon listens on");
    replay = replay_identify(c);
    if (replay != REPLAY_NONE)
        return replay == REPLAY_KNOWN && call_may_use(c);
    if (c->dialect->authenticate)
        return c->dialect->authenticate(c);
    if (p->is_unix) {
        authenticate_uid(c, p->cred.uid);
        apply_trust_level(c, NULL);
        return guard_identify(c) && call_may_use(c);
    }
    if (c->route->flags & ROUTE_OPEN)
        return true;
    token = call_bearer(c);
    if (!token.p)
        return call_refuse(c,
                           "send Authorization: Bearer TOKEN; `sandboxer token create` makes one");
    return call_by_token(c, token) && guard_identify(c) && call_may_use(c);
}
