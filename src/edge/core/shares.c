/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/shares.h"

#include <stdio.h>
#include <stdlib.h>

#include "edge/core/internal.h"
#include "base/clock.h"
#include "base/disk_space.h"
#include "base/io.h"
#include "control/owner/owner_share.h"

enum {
    STRANGERS_PART = 8, /* share of connections for unauthenticated clients, in addition */
    STRANGERS_MIN = 16,
};

static struct quota_limits make_quota_limits(uint64_t total, uint64_t per_owner)
{
    struct quota_limits l = { .total = total, .share = config_share(per_owner, total) };

    l.reserve = total / QUOTA_RESERVE_PART;
    if (!l.reserve && total > 1)
        l.reserve = 1;
    l.parts[0].limit = l.parts[1].limit = quota_token_part(l.share);
    return l;
}

unsigned shares_of_strangers(const struct config *c)
{
    unsigned n = c->limits.connections_unauthenticated;

    if (!n)
        n = c->limits.connections / STRANGERS_PART;
    return n > STRANGERS_MIN ? n : STRANGERS_MIN;
}

unsigned shares_of_tls(const struct config *c)
{
    return c->limits.connections + 2 * shares_of_strangers(c);
}

static bool peer_is_admin(void *user, const struct http_peer *p)
{
    const struct api *a = user;

    return p->is_unix && p->cred.pid && (p->cred.uid == 0 || p->cred.uid == a->owner);
}

void shares_open(struct api *a, struct http_config *http)
{
    const struct config *c = a->config;
    const struct quota_limits connections = make_quota_limits(c->limits.connections,
                                                              c->limits.connections_per_owner),
                              requests = make_quota_limits(c->limits.requests_in_flight,
                                                           c->limits.requests_per_owner),
                              uploads = quota_token_limits(c->limits.upload_bytes_per_owner);

    http->connections = (unsigned)connections.total;
    http->reserve = (unsigned)connections.reserve;
    http->per_caller = (unsigned)connections.share;
    http->per_token = (unsigned)connections.parts[0].limit;
    http->strangers = shares_of_strangers(c);
    http->per_address = http->strangers / 2;
    http->exchanges = http->connections + http->strangers;
    http->buffered =
        make_quota_limits(c->limits.buffered_bytes, c->limits.buffered_bytes_per_owner);
    http->privileged = peer_is_admin;
    http->body_ns = c->limits.body_timeout;
    rate_init(&a->link_checks, c->limits.link_checks, NS_PER_S);
    rate_init(&a->address_link_checks, c->limits.link_checks / 2, NS_PER_S);
    quota_init(&a->requests, &requests, "requests in flight", "limits.requests_in_flight",
               "limits.requests_per_owner");
    quota_init(&a->uploads, &uploads, "bytes of uploads", "", "limits.upload_bytes_per_owner");
}

/* The key of a token family, distinct from the key of its first token, whose charges end with that
 * token. */
static struct str format_family_key(const struct account *a, char ret[static QUOTA_KEY_MAX])
{
    int n = a->part.n ? snprintf(ret, QUOTA_KEY_MAX, "family:" STR_FMT, STR_ARG(a->part)) : 0;

    return (struct str){ ret, n > 0 ? (size_t)n : 0 };
}

/* The token, or the sandbox if the sandbox's own token authenticated the request. */
static struct str quota_part_of_call(const struct call *c)
{
    if (!c->caller.by_token)
        return STR("");
    if (str_starts(str_from(c->caller.actor.id), STR("tok_")))
        return str_from(c->caller.actor.id);
    return c->sandbox ? str_from(sandbox_view(c->sandbox).record->id) : STR("");
}

/* An unauthenticated client is charged by address. */
static struct quota_who quota_holder_of_call(const struct call *c, const struct account *a,
                                             char address[static QUOTA_KEY_MAX],
                                             char family[static QUOTA_KEY_MAX])
{
    const struct http_peer *p = http_peer(c->x);

    if (!c->caller.owner[0])
        return (struct quota_who){ .key = quota_address(&p->remote, address) };
    return (struct quota_who){ .key = str_from(a->name),
                               .parts = { quota_part_of_call(c), format_family_key(a, family) },
                               .privileged = p->is_unix && a->exempt };
}

bool shares_admit(struct call *c)
{
    char address[QUOTA_KEY_MAX], family[QUOTA_KEY_MAX];
    struct account a = account_of(c->api->control, c->caller.owner, c->caller.family);
    struct quota_who who = quota_holder_of_call(c, &a, address, family);
    struct err e;
    int r = 0;

    if (c->caller.owner[0] && !(c->route->flags & ROUTE_OPEN))
        r = http_bill(c->x, &who, &e);
    /* Long calls are charged as connections only. */
    if (r >= 0 && !c->approved && !(c->route->flags & ROUTE_LONG))
        r = quota_take(&c->api->requests, &who, 1, &c->in_flight, &e);
    else if (r >= 0)
        list_append(&c->api->listening, &c->listening);
    if (r >= 0)
        return true;
    if (!c->audit[0])
        call_record_refusal(c, "limit.reached", e.msg);
    call_fail(c, &e);
    return false;
}

int shares_take_upload(struct api *a, const char *owner, const char *family, uint64_t n,
                       struct quota_hold *h, struct err *e)
{
    const struct account of = account_of(a->control, owner, family);
    const struct quota_who who = account_holder(&of);

    return h->share ? quota_grow(h, n, e) : quota_take(&a->uploads, &who, n, h, e);
}

int store_body_piece(int fd, uint64_t *size, const struct config *config, struct str data,
                     struct err *e)
{
    uint64_t max = config->images.max_bytes;
    int r = room_check(fd, config->images.free_min, *size, data.n, e);

    if (r < 0)
        return r;
    if (data.n > max - *size)
        return err_set(e, ERR_TOO_BIG, "the file has more than %llu bytes (images.max_bytes)",
                       (unsigned long long)max);
    r = err_wrap(e, write_all(fd, data, e), "storing the body");
    if (r >= 0)
        *size += data.n;
    return r;
}

bool shares_may_check_link(struct call *c, uint64_t n)
{
    char text[QUOTA_KEY_MAX];
    struct str address = quota_address(&http_peer(c->x)->remote, text);
    const struct api *a = c->api;
    int64_t now = clock_mono();

    if (n > a->config->limits.link_checks / 2)
        return call_fail_with(
            c, 503, "busy",
            "links that name no sandbox are not checked: there are more sandboxes than half of "
            "limits.link_checks; send E2b-Sandbox-Id, or configure a domain");
    return !(rate_wait(&a->link_checks, STR(""), now) ||
             rate_wait(&a->address_link_checks, address, now)) ||
           call_fail_with(
               c, 429, "quota",
               "too many signed links were checked: limits.link_checks allows %u in a second, "
               "and half of them to an address; try again, or send the access token of "
               "the sandbox instead",
               a->config->limits.link_checks);
}

void shares_count_link_checks(const struct call *c, uint64_t n)
{
    char text[QUOTA_KEY_MAX];
    struct str address = quota_address(&http_peer(c->x)->remote, text);

    rate_use(&c->api->link_checks, STR(""), n, clock_mono());
    rate_use(&c->api->address_link_checks, address, n, clock_mono());
}

void api_release(struct api *a)
{
    dialect_set_done(&a->dialects);
    rate_done(&a->link_checks);
    rate_done(&a->address_link_checks);
    quota_done(&a->uploads);
    quota_done(&a->requests);
    free(a);
}
