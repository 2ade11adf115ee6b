/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/quota/quota.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

enum { FIRST_SLOTS = 64 };

void quota_init(struct quota *b, const struct quota_limits *l, const char *what,
                const char *total_key, const char *share_key)
{
    *b = (struct quota){
        .limits = *l, .what = what, .total_key = total_key, .share_key = share_key
    };
}

void quota_done(struct quota *b)
{
    for (size_t i = 0; i < b->size_; i++)
        for (struct quota_share *s = b->slots_[i], *next; s; s = next) {
            next = s->next_;
            free(s);
        }
    free(b->slots_);
    *b = (struct quota){ 0 };
}

/* --- shares by key --- */

static size_t hash_key(struct str key)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < key.n; i++)
        h = (h ^ (unsigned char)key.p[i]) * UINT64_C(1099511628211);
    return (size_t)(h ^ h >> 32);
}

static struct quota_share **share_slot(const struct quota *b, struct str key)
{
    return &b->slots_[hash_key(key) & (b->size_ - 1)];
}

static void resize_slots(struct quota *b, size_t size)
{
    struct quota_share **old = b->slots_;
    size_t n = b->size_;

    b->slots_ = new0_array(size, sizeof *b->slots_);
    b->size_ = size;
    for (size_t i = 0; i < n; i++)
        for (struct quota_share *s = old[i], *next; s; s = next) {
            struct quota_share **at = share_slot(b, str_from(s->key));

            next = s->next_;
            s->next_ = *at;
            *at = s;
        }
    free(old);
}

/* Keys that are longer than a share can store are one caller if they begin alike. */
static struct str cut_key(struct str key)
{
    return (struct str){ key.p, key.n < QUOTA_KEY_MAX ? key.n : QUOTA_KEY_MAX - 1 };
}

struct quota_share *quota_find(const struct quota *b, struct str key)
{
    struct quota_share *s;

    key = cut_key(key);
    s = b->size_ ? *share_slot(b, key) : NULL;
    while (s && !str_eq(str_from(s->key), key))
        s = s->next_;
    return s;
}

static struct quota_share *join_share(struct quota *b, struct str key)
{
    struct quota_share *s = quota_find(b, key), **at;

    if (!s) {
        if (b->n_ >= b->size_)
            resize_slots(b, b->size_ ? b->size_ * 2 : FIRST_SLOTS);
        s = new0(sizeof *s);
        key = cut_key(key);
        memcpy(s->key, key.p, key.n);
        s->quota = b;
        at = share_slot(b, key);
        s->next_ = *at;
        *at = s;
        b->n_++;
    }
    s->holds_++;
    return s;
}

static void leave_share(struct quota_share *s)
{
    struct quota_share **at;

    if (!s || --s->holds_)
        return;
    at = share_slot(s->quota, str_from(s->key));
    while (*at != s)
        at = &(*at)->next_;
    *at = s->next_;
    s->quota->n_--;
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

static int refuse_part(struct quota *b, size_t i, uint64_t used, struct err *e)
{
    const struct quota_part *p = &b->limits.parts[i];

    return refuse_take(b, ERR_QUOTA, p->whose ? p->whose : "this token's family has",
                       p->key ? "" : "a token's part: seven eighths of ",
                       p->key ? p->key : b->share_key, used, part_limit(&b->limits, i), e);
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
    for (size_t i = 0; !privileged && i < QUOTA_PARTS_MAX; i++)
        if (u->in_part[i] && exceeds_limit(part_limit(l, i), u->parts[i], n))
            return refuse_part(b, i, u->parts[i], e);
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
