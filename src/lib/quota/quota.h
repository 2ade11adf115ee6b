/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of a bounded amount: connections, requests, bytes in memory, bytes on disk.
 *
 * A quota has a total. Each caller is known by a key (its owner) and holds at most `share` of the
 * total. Holds can also be counted in parts (of a token, of a sandbox), each with its own limit.
 * `reserve` of the total is left to privileged callers, which neither share nor part limits. Every
 * call is O(1), and a caller that holds nothing costs nothing.
 *
 * A hold is a member of its user: zeroed it is empty. quota_take() fills it, quota_drop() empties
 * it. A refusal changes nothing, counts, and names the limit and its configuration key. */
#ifndef LIB_QUOTA_QUOTA_H
#define LIB_QUOTA_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/str.h"
#include "lib/loop/list.h"
#include "lib/map/map.h"

enum {
    QUOTA_KEY_MAX = 80,
    QUOTA_PARTS_MAX = 2,
    QUOTA_RESERVE_PART = 16, /* of a total: the usual reserve for privileged callers */
};

/* A kind of part: one of its parts holds at most `limit`. */
struct quota_part {
    uint64_t limit;    /* 0: as the share */
    const char *whose; /* "this sandbox has"; NULL: "this token's family has" */
    const char *key;   /* its configuration key; NULL: seven eighths of the share's */
};

struct quota_limits {
    uint64_t total;   /* 0: unlimited */
    uint64_t reserve; /* of the total, for privileged callers */
    uint64_t share;   /* of one caller; 0: unlimited */
    struct quota_part parts[QUOTA_PARTS_MAX];
};

/* The part of a token's family in its owner's share: seven eighths, so that no family can take all
 * from another one, and at least one. A family is a token that a user made, and all that were made
 * with it or with one of these. */
static inline uint64_t quota_token_part(uint64_t share)
{
    uint64_t part = share - share / 8 - (share % 8 != 0);

    return part || !share ? part : 1;
}

/* Limits of what owners share with their tokens: a share, and in parts[0] a family's part of it. */
static inline struct quota_limits quota_token_limits(uint64_t share)
{
    return (struct quota_limits){ .share = share,
                                  .parts = { { .limit = quota_token_part(share) } } };
}

struct quota {
    struct quota_limits limits;
    const char *what;      /* "connections": plural, for messages */
    const char *total_key; /* configuration keys, for messages */
    const char *share_key;
    uint64_t used;
    uint64_t refused; /* how often, ever */
    struct map shares_;
};

/* The holds of one caller, or of one part of it. */
struct quota_share {
    struct quota *quota;
    struct map_entry entry_; /* by the key */
    uint64_t used;
    unsigned holds_;
    struct list idle; /* for the user: holders that can be ended to make room, oldest first … */
    struct list all;  /* … and every holder */
    char key[QUOTA_KEY_MAX];
};

struct quota_who {
    struct str key;
    struct str parts[QUOTA_PARTS_MAX]; /* no two of them alike; empty: none of that kind */
    bool privileged;
};

struct quota_hold {
    struct quota_share *share, *parts[QUOTA_PARTS_MAX]; /* a part may be NULL */
    uint64_t n;
    bool privileged;
};

void quota_init(struct quota *b, const struct quota_limits *l, const char *what,
                const char *total_key, const char *share_key);
void quota_done(struct quota *b); /* after the last hold */

/* Fills an empty hold. -ERR_QUOTA: the caller has its share, or a part of it has its limit;
 * -ERR_BUSY: all is in use. */
int quota_take(struct quota *b, const struct quota_who *who, uint64_t n, struct quota_hold *h,
               struct err *e);
/* Adds to a hold that is not empty, or gives a part of it back. */
int quota_grow(struct quota_hold *h, uint64_t n, struct err *e);
void quota_shrink(struct quota_hold *h, uint64_t n);
/* The same without a check, for what is there already. */
void quota_force(struct quota_hold *h, uint64_t n);
/* Fills an empty hold in the same way. */
void quota_charge(struct quota *b, const struct quota_who *who, uint64_t n, struct quota_hold *h);
void quota_drop(struct quota_hold *h); /* harmless on an empty one */
/* Whether the hold belongs to this caller. */
bool quota_is_of(const struct quota_hold *h, const struct quota *b, const struct quota_who *who);

/* The caller's share if it holds anything, else NULL. */
struct quota_share *quota_find(const struct quota *b, struct str key);
uint64_t quota_used(const struct quota *b, struct str key);
/* How much more the caller's share and parts allow; UINT64_MAX: they do not limit it. */
uint64_t quota_room(const struct quota *b, const struct quota_who *who);
/* Whether one of the caller's parts has no room for n more: only an end within that part makes
 * it. */
bool quota_part_refuses(const struct quota *b, const struct quota_who *who, uint64_t n);

/* The key of a client that is known by its address only: an IPv4 address, or an IPv6 network of 64
 * bits, which is what one client commonly has. An IPv4 address in IPv6 is the IPv4 address. */
struct str quota_address(const struct sockaddr_storage *a, char ret[static QUOTA_KEY_MAX]);

#endif
