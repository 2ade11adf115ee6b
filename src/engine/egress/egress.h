/* The egress worker's world: sandboxes, each with its listeners, one policy snapshot, an audit sink
 * and the connections that are open; and what they share: the loop, the resolver, the limits.
 *
 * Adapters (adapters/) translate how a program reached us into one intent, ask authorize.h, and
 * render the answer in their own protocol; they hold no policy. Relays (relays/) own bytes and
 * dialling. Nothing is dialled without a decision of the box's current generation, and no byte is
 * written upstream under an older one. */
#ifndef EGRESS_EGRESS_H
#define EGRESS_EGRESS_H

#include "base/id.h"
#include "dns/resolver.h"
#include "egress/limits.h"
#include "ipc/listeners.h"
#include "loop/list.h"
#include "loop/loop.h"
#include "loop/timer.h"
#include "net/host.h"
#include "policy/egress.h"

struct audit;
struct mapping;
struct own_addresses;
struct egress_box;

/* How to get out, for people behind a proxy themselves. It widens nothing: addresses are resolved
 * and checked by us, and it is asked for the checked address. */
enum upstream_kind { UPSTREAM_DIRECT, UPSTREAM_CONNECT, UPSTREAM_SOCKS5 };
struct upstream {
    enum upstream_kind kind;
    struct address address;
    uint16_t port;
};

struct egress {
    struct loop *loop;
    struct dns_resolver resolver;
    struct upstream upstream;
    struct list boxes;
    unsigned n_boxes;
    unsigned n_open;           /* connections of all boxes */
    unsigned files;            /* descriptors that the process may have; 0: not known */
    uint64_t decisions;        /* numbers them, for audit */
    int64_t idle_ns, total_ns; /* of tunnels; 0: EGRESS_IDLE_NS, EGRESS_TOTAL_NS */
    bool standalone; /* for any program: loopback listeners of ours, no process identity */
    const struct own_addresses *own; /* where this machine itself is; NULL: nobody looked */
    /* Finds out who holds the other end of a connection; NULL: nobody can. The answer comes from
     * the loop, once, unless it is cancelled. */
    const struct egress_who_ops *who;
};

/* Counters that only grow; what idleness and meters read. */
struct egress_counters {
    uint64_t allowed, denied, connections;
    uint64_t bytes_out, bytes_in; /* through relays, upstream's point of view: out is sent there */
    int64_t last_ns;              /* CLOCK_MONOTONIC of the last byte */
};

/* Something open that a new policy, or the end of the box, may have to close: embedded in its
 * owner. reconsider() is called for every one when a new snapshot is in force: what is no longer
 * allowed under it ends before another byte passes. close() is called when the box ends, or when
 * its descriptors are another box's share; `how` is for the audit. Both descriptors are closed and
 * the list is left before it returns, and the box is not touched again. */
struct egress_open {
    struct link link;
    void (*reconsider)(struct egress_open *o);
    void (*close)(struct egress_open *o, const char *how);
};

struct egress_box {
    struct egress *egress;
    char id[ID_MAX];
    struct listeners listeners;
    struct egress_snapshot *snapshot; /* NULL: everything is denied */
    uint64_t generation;
    int64_t expires; /* when an entry of the policy ends, by the wall clock; INT64_MAX: never */
    struct loop_timer expiry;
    struct audit *audit;
    struct mapping *mapping; /* policy DNS's synthetic addresses */
    struct egress_counters counters;
    struct list open; /* struct egress_open */
    unsigned n_open;
    int64_t lookups_paid; /* CLOCK_MONOTONIC ns: lookups are paid for with time (lease.h) */
    unsigned lookups_running;
    struct link link;
};

/* A box takes over the listeners; the audit descriptor too. It serves at once, and denies all until
 * a policy is set. Freeing closes every connection. */
int egress_box_new(struct egress *g, const char *id, struct listeners *listeners, int audit_fd,
                   struct egress_box **ret, struct err *e);
void egress_box_free(struct egress_box *b);
/* In force at once and for everything: what the new one does not allow is closed. Takes a
 * reference. NULL denies everything. */
void egress_box_set_policy(struct egress_box *b, struct egress_snapshot *s);

/* Ends the entries of the policy whose time has come. What they let through ends a moment later. */
void egress_box_expire(struct egress_box *b);

/* How many connections a box may have open now: the worker's descriptors are divided by the boxes
 * that it has, and one more, so that the next one finds some. */
unsigned egress_box_share(const struct egress_box *b);

/* Joining and leaving the box's list, and its count. Leaving twice is harmless. */
void egress_open_join(struct egress_box *b, struct egress_open *o);
void egress_open_leave(struct egress_box *b, struct egress_open *o);

#endif
