/* Shares of a bounded amount: connections, requests, bytes in memory, bytes on disk.
 *
 * A quota has a total. Each caller is known by a key (its owner) and holds at most `share` of the
 * total; each part of a caller (a token) holds at most `part`. `reserve` of the total is left to
 * privileged callers, which no share limits. Every call is O(1), and a caller that holds nothing
 * costs nothing.
 *
 * A hold is a member of its user: zeroed it is empty. quota_take() fills it, quota_drop() empties
 * it. A refusal changes nothing, counts, and names the limit and its configuration key. */
#ifndef QUOTA_QUOTA_H
#define QUOTA_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/str.h"
#include "loop/list.h"

enum { QUOTA_KEY_MAX = 80 };

struct quota_limits {
    uint64_t total;   /* 0: unlimited */
    uint64_t reserve; /* of the total, for privileged callers */
    uint64_t share;   /* of one caller; 0: unlimited */
    uint64_t part;    /* of one part of a caller; 0: as its share */
};

struct quota {
    struct quota_limits limits;
    const char *what;      /* "connections": plural, for messages */
    const char *total_key; /* configuration keys, for messages */
    const char *share_key;
    const char *part_key;  /* NULL: as share_key */
    const char *part_what; /* "this token has" unless it is set */
    uint64_t used;
    uint64_t refused; /* how often, ever */
    struct quota_share **slots_;
    size_t size_, n_;
};

/* What one caller, or one part of it, holds. */
struct quota_share {
    struct quota *quota;
    struct quota_share *next_;
    uint64_t used;
    unsigned holds_;
    struct list idle; /* for the user: holders that can be ended to make room, oldest first … */
    struct list all;  /* … and every holder */
    char key[QUOTA_KEY_MAX];
};

struct quota_who {
    struct str key;
    struct str part; /* empty: none */
    bool privileged;
};

struct quota_hold {
    struct quota_share *share, *part; /* part may be NULL */
    uint64_t n;
    bool privileged;
};

void quota_init(struct quota *b, const struct quota_limits *l, const char *what,
                const char *total_key, const char *share_key);
void quota_done(struct quota *b); /* after the last hold */

/* Fills an empty hold. -ERR_QUOTA: the caller has its share; -ERR_BUSY: all is in use. */
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

/* The key of a client that is known by its address only: an IPv4 address, or an IPv6 network of 64
 * bits, which is what one client commonly has. An IPv4 address in IPv6 is the IPv4 address. */
struct str quota_address(const struct sockaddr_storage *a, char ret[static QUOTA_KEY_MAX]);

#endif
