/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/quota/quota.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

void quota_init(struct quota *b, const struct quota_limits *l, const char *what,
                const char *total_key, const char *share_key)
{
    *b = (struct quota){
        .limits = *l, .what = what, .total_key = total_key, .share_key = share_key
    };
}

static void free_share(struct map_entry *v, void *user)
{
    free(container_of(v, struct quota_share, entry_));
}

void quota_done(struct quota *b)
{
    map_each(&b->shares_, free_share, NULL);
    map_done(&b->shares_);
    *b = (struct quota){ 0 };
}

/* --- shares by key --- */

/* Keys that are longer than a share can store are one caller if they begin alike. */
static struct str cut_key(struct str key)
{
    return (struct str){ key.p, key.n < QUOTA_KEY_MAX ? key.n : QUOTA_KEY_MAX - 1 };
}

struct quota_share *quota_find(const struct quota *b, struct str key)
{
    struct map_entry *v = map_find(&b->shares_, cut_key(key));

    return v ? container_of(v, struct quota_share, entry_) : NULL;
}

static struct quota_share *join_share(struct quota *b, struct str key)
{
    struct quota_share *s = quota_find(b, key);

    if (!s) {
        s = new0(sizeof *s);
        key = cut_key(key);
        memcpy(s->key, key.p, key.n);
        s->quota = b;
        s->entry_.id = s->key;
        map_add(&b->shares_, &s->entry_);
    }
    s->holds_++;
    return s;
}

static void leave_share(struct quota_share *s)
{
    if (!s || --s->holds_)
        return;
    map_remove(&s->quota->shares_, &s->entry_);
    free(s);
}

/* --- taking and giving --- */

static uint64_t part_limit(const struct quota_limits *l, size_t i)
{
    return l->parts[i].limit ? l->parts[i].limit : l->share;
}

static bool exceeds_limit(uint64_t limit, uint64_t used, uint64_t n)
{
    return limit && (n > limit || used > limit - n);
}

static int refuse_take(struct quota *b, enum err_code code, const char *whose, const char *of,
                       const char *key, uint64_t used, uint64_t limit, struct err *e)
{
    b->refused++;
    err_put_(e, code, "%s %llu of %llu %s (%s%s); finish or remove some, then try again", whose,
             (unsigned long long)used, (unsigned long long)limit, b->what, of, key);
    return -(int)code;
}

/* How much of a caller's share, and of each part that it counts in, is used. */
struct used_amounts {
    uint64_t share;
    uint64_t parts[QUOTA_PARTS_MAX];
    bool in_part[QUOTA_PARTS_MAX];
};

static int check_take(struct quota *b, const struct used_amounts *u, bool privileged, uint64_t n,
                      struct err *e)
{
    const struct quota_limits *l = &b->limits;
    uint64_t common = l->total > l->reserve ? l->total - l->reserve : l->total;

    if (!privileged && exceeds_limit(l->share, u->share, n))
        return refuse_take(b, ERR_QUOTA, "this caller has", "", b->share_key, u->share, l->share,
                           e);
    for (size_t i = 0; !privileged && i < QUOTA_PARTS_MAX; i++) {
        const struct quota_part *p = &l->parts[i];

        if (u->in_part[i] && exceeds_limit(part_limit(l, i), u->parts[i], n))
            return refuse_take(b, ERR_QUOTA, p->whose ? p->whose : "this token's family has",
                               p->key ? "" : "a token's part: seven eighths of ",
                               p->key ? p->key : b->share_key, u->parts[i], part_limit(l, i), e);
    }
    if (exceeds_limit(privileged ? l->total : common, b->used, n))
        return refuse_take(b, ERR_BUSY, "all callers together have", "", b->total_key, b->used,
                           privileged ? l->total : common, e);
    return 0;
}

static struct used_amounts find_used(const struct quota *b, const struct quota_who *who)
{
    struct used_amounts u = { .share = quota_used(b, who->key) };

    for (size_t i = 0; i < QUOTA_PARTS_MAX; i++) {
        u.in_part[i] = who->parts[i].n;
        u.parts[i] = u.in_part[i] ? quota_used(b, who->parts[i]) : 0;
    }
    return u;
}

static void add_to_hold(struct quota_hold *h, uint64_t n)
{
    h->n += n;
    h->share->used += n;
    h->share->quota->used += n;
    for (size_t i = 0; i < QUOTA_PARTS_MAX; i++)
        if (h->parts[i])
            h->parts[i]->used += n;
}

void quota_charge(struct quota *b, const struct quota_who *who, uint64_t n, struct quota_hold *h)
{
    *h = (struct quota_hold){ .share = join_share(b, who->key), .privileged = who->privileged };
    for (size_t i = 0; i < QUOTA_PARTS_MAX; i++)
        if (who->parts[i].n)
            h->parts[i] = join_share(b, who->parts[i]);
    add_to_hold(h, n);
}

int quota_take(struct quota *b, const struct quota_who *who, uint64_t n, struct quota_hold *h,
               struct err *e)
{
    const struct used_amounts u = find_used(b, who);
    int r = check_take(b, &u, who->privileged, n, e);

    if (r < 0)
        return r;
    quota_charge(b, who, n, h);
    return 0;
}

int quota_grow(struct quota_hold *h, uint64_t n, struct err *e)
{
    struct used_amounts u = { .share = h->share->used };
    int r;

    for (size_t i = 0; i < QUOTA_PARTS_MAX; i++) {
        u.in_part[i] = h->parts[i];
        u.parts[i] = h->parts[i] ? h->parts[i]->used : 0;
    }
    r = check_take(h->share->quota, &u, h->privileged, n, e);
    if (r >= 0)
        add_to_hold(h, n);
    return r;
}

void quota_force(struct quota_hold *h, uint64_t n)
{
    if (h->share)
        add_to_hold(h, n);
}

void quota_shrink(struct quota_hold *h, uint64_t n)
{
    if (!h->share)
        return;
    n = n < h->n ? n : h->n;
    h->n -= n;
    h->share->used -= n;
    h->share->quota->used -= n;
    for (size_t i = 0; i < QUOTA_PARTS_MAX; i++)
        if (h->parts[i])
            h->parts[i]->used -= n;
}

void quota_drop(struct quota_hold *h)
{
    quota_shrink(h, h->n);
    leave_share(h->share);
    for (size_t i = 0; i < QUOTA_PARTS_MAX; i++)
        leave_share(h->parts[i]);
    *h = (struct quota_hold){ 0 };
}

bool quota_is_of(const struct quota_hold *h, const struct quota *b, const struct quota_who *who)
{
    if (!h->share || h->share->quota != b || h->privileged != who->privileged ||
        !str_eq(str_from(h->share->key), who->key))
        return false;
    for (size_t i = 0; i < QUOTA_PARTS_MAX; i++)
        if (!str_eq(str_from(h->parts[i] ? h->parts[i]->key : ""), who->parts[i]))
            return false;
    return true;
}

static uint64_t room_within(uint64_t limit, uint64_t used, uint64_t room)
{
    uint64_t left = used < limit ? limit - used : 0;

    return limit && left < room ? left : room;
}

uint64_t quota_room(const struct quota *b, const struct quota_who *who)
{
    const struct used_amounts u = find_used(b, who);
    uint64_t room = UINT64_MAX;

    if (who->privileged)
        return room;
    room = room_within(b->limits.share, u.share, room);
    for (size_t i = 0; i < QUOTA_PARTS_MAX; i++)
        if (u.in_part[i])
            room = room_within(part_limit(&b->limits, i), u.parts[i], room);
    return room;
}

bool quota_part_refuses(const struct quota *b, const struct quota_who *who, uint64_t n)
{
    const struct used_amounts u = find_used(b, who);
    bool refuses = false;

    for (size_t i = 0; !who->privileged && i < QUOTA_PARTS_MAX; i++)
        refuses |= u.in_part[i] && exceeds_limit(part_limit(&b->limits, i), u.parts[i], n);
    return refuses;
}

uint64_t quota_used(const struct quota *b, struct str key)
{
    const struct quota_share *s = quota_find(b, key);

    return s ? s->used : 0;
}

/* --- keys --- */

struct str quota_address(const struct sockaddr_storage *a, char ret[static QUOTA_KEY_MAX])
{
    const unsigned char *p;
    int n = 0;

    if (a->ss_family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;

        p = v6->s6_addr;
        if (!IN6_IS_ADDR_V4MAPPED(v6) && !IN6_IS_ADDR_LOOPBACK(v6))
            n = snprintf(ret, QUOTA_KEY_MAX, "net:%02x%02x:%02x%02x:%02x%02x:%02x%02x", p[0], p[1],
                         p[2], p[3], p[4], p[5], p[6], p[7]);
        else
            n = snprintf(ret, QUOTA_KEY_MAX, "address:%u.%u.%u.%u", p[12], p[13], p[14], p[15]);
    } else {
        p = (const unsigned char *)&((const struct sockaddr_in *)a)->sin_addr;
        n = snprintf(ret, QUOTA_KEY_MAX, "address:%u.%u.%u.%u", p[0], p[1], p[2], p[3]);
    }
    return (struct str){ ret, n > 0 ? (size_t)n : 0 };
}
