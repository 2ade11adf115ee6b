/* SPDX-License-Identifier: Apache-2.0 */
#include "control/owner/event_share.h"

#include "base/clock.h"
#include "control/owner/owner_share.h"
#include "control/plane/plane.h"
#include "control/owner/tokens.h"

#define DAY_NS (24 * 3600 * NS_PER_S)

int event_share_open(struct control *c, struct err *e)
{
    const struct config *f = c->config;
    struct store_query q = { .kind = STORE_EVENT_COUNTS, .time_ns = clock_wall() - DAY_NS };
    uint64_t most = config_share(f->limits.events_per_owner, f->limits.events_keep),
             half = most / 2;
    int r;

    rate_init(&c->events, most, DAY_NS);
    rate_init(&c->token_events, quota_token_part(most), DAY_NS);
    store_keep_events(c->store, f->limits.events_keep);
    arena_init(&q.arena, CONTROL_ARENA_MAX);
    r = store_ask_now(c->store, &q, e);
    for (size_t i = 0; r >= 0 && i < q.n; i++)
        if (q.counts[i].owner[0] && !control_is_administrator(c, q.counts[i].owner))
            rate_use(&c->events, str_from(q.counts[i].owner),
                     q.counts[i].n < half ? q.counts[i].n : half, clock_mono());
    arena_done(&q.arena);
    return r;
}

void event_share_close(struct control *c)
{
    rate_done(&c->events);
    rate_done(&c->token_events);
}

static bool is_token_id(const char *id)
{
    return str_starts(str_from(id), STR("tok_"));
}

const char *event_share_family(const struct control *c, const struct actor *who)
{
    return who && is_token_id(who->id) ? tokens_family(c->tokens, who->id) : "";
}

void event_share_count(struct control *c, const struct event_record *v)
{
    const struct sandbox_record *r = v->sandbox[0] ? control_record(c, v->sandbox) : NULL;
    /* The daemon's own actions on a sandbox are attributed to the sandbox's maker. */
    const char *family = is_token_id(v->actor.id) ? event_share_family(c, &v->actor)
                         : r                      ? r->family
                                                  : "";
    struct account a = account_of(c, v->owner, family);

    if (!v->owner[0] || a.exempt)
        return;
    rate_use(&c->events, str_from(a.name), 1, clock_mono());
    if (a.part.n)
        rate_use(&c->token_events, a.part, 1, clock_mono());
}

static int refuse_events(const char *who, int64_t wait_ns, struct err *e)
{
    return err_set(
        e, ERR_QUOTA,
        "%s has reached its limit of events (limits.events_per_owner, of which seven eighths are a "
        "token's part); destroy still works, and something can be started again in %lld s",
        who, (long long)(wait_ns / NS_PER_S + 1));
}

int event_share_check(const struct control *c, const char *owner, const struct actor *who,
                      struct err *e)
{
    return event_share_check_family(c, owner, event_share_family(c, who), e);
}

int event_share_check_family(const struct control *c, const char *owner, const char *family,
                             struct err *e)
{
    struct account a = account_of(c, owner, family);
    int64_t wait;

    if (!owner[0] || a.exempt)
        return 0;
    wait = rate_wait(&c->events, str_from(a.name), clock_mono());
    if (wait)
        return refuse_events(a.name, wait, e);
    wait = a.part.n ? rate_wait(&c->token_events, a.part, clock_mono()) : 0;
    return wait ? refuse_events("this token's family", wait, e) : 0;
}
