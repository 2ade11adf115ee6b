/* SPDX-License-Identifier: Apache-2.0 */
/* The state of an egress worker: sandboxes, each with its listeners, policy snapshot, audit sink
 * and open connections, and the parts that they share: the loop, the resolver, the limits.
 *
 * Adapters (adapters/) turn a connection of a program into one intent, pass it to authorize.h, and
 * render the result in their own protocol; they contain no policy. Relays (relays/) dial and carry
 * bytes. Nothing is dialled without a decision of the box's current generation, and no byte is
 * written upstream under an older one. */
#ifndef ENGINE_EGRESS_EGRESS_H
#define ENGINE_EGRESS_EGRESS_H

#include "base/id.h"
#include "lib/dns/resolver.h"
#include "engine/egress/limits.h"
#include "engine/egress/ranking.h"
#include "lib/ipc/listeners.h"
#include "lib/loop/list.h"
#include "lib/loop/loop.h"
#include "lib/loop/timer.h"
#include "lib/net/host.h"
#include "domain/policy/egress.h"

struct audit;
struct fake_addresses;
struct own_addresses;
struct egress_box;

/* The route out, for machines behind a proxy. It does not widen the policy: the worker resolves and
 * checks addresses itself, and asks the proxy for the checked address. */
enum upstream_kind { UPSTREAM_DIRECT, UPSTREAM_CONNECT, UPSTREAM_SOCKS5 };
struct upstream {
    enum upstream_kind kind;
    struct address address;
    uint16_t port;
};

struct egress_state {
    struct loop *loop;
    struct dns_resolver resolver;
    struct upstream upstream;
    struct list boxes;
    unsigned n_boxes;
    struct ranking crowded;    /* boxes by number of open connections */
    unsigned n_open;           /* connections of all boxes */
    unsigned files;            /* limit of descriptors of the process; 0: not known */
    uint64_t decisions;        /* counts decisions, for audit ids */
    int64_t idle_ns, total_ns; /* of tunnels; 0: EGRESS_IDLE_NS, EGRESS_TOTAL_NS */
    bool standalone;           /* for any program: own loopback listeners, no process identity */
    const struct own_addresses *own; /* addresses of this machine; NULL: not known */
    /* Finds the process at the other end of a connection; NULL: not supported. Answers once, from
     * the loop, unless it is cancelled. */
    const struct egress_who_ops *who;
};

/* Counters that only grow; read for idle detection and metering. */
struct egress_counters {
    uint64_t allowed, denied, connections;
    uint64_t bytes_out, bytes_in; /* bytes of relays; out: sent upstream */
    int64_t last_ns;              /* CLOCK_MONOTONIC of the last byte */
};

/* An open connection that a new policy, or the end of the box, may have to close: embedded in its
 * owner. reconsider() is called when a new snapshot is in force: connections that it does not allow
 * end before another byte passes. close() is called when the box ends, or when its descriptors are
 * another box's share; `how` is for the audit. Before close() returns, both descriptors are closed
 * and the list is left; afterwards the owner does not touch the box. */
struct egress_open {
    struct link link;
    void (*reconsider)(struct egress_open *o); /* NULL: nothing passes yet, or never again */
    void (*close)(struct egress_open *o, const char *how);
};

/* A client's socket that no relay has: the first member of its owner, zeroed before use. */
struct egress_client {
    struct egress_open open;
    struct egress_box *box;
    int fd;
    struct loop_fd socket;
    struct loop_timer timer;
    struct loop_later later_;
};

enum { EGRESS_FLAW_TEXT = 200 };

struct egress_box {
    struct egress_state *egress;
    char id[ID_MAX];
    struct listeners listeners;
    struct egress_snapshot *snapshot; /* NULL: everything is denied */
    char flaw[EGRESS_FLAW_TEXT];      /* the reason, if the last policy was invalid; may be empty */
    uint64_t generation;
    bool identify; /* programs are recorded where the policy does not depend on them, too */
    /* when the next entry of the policy expires, by the wall clock; INT64_MAX: never */
    int64_t expires;
    struct loop_timer expiry;
    struct audit *audit;
    struct fake_addresses *mapping; /* synthetic addresses of policy DNS */
    struct egress_counters counters;
    struct list open;          /* struct egress_open */
    struct rank rank;          /* its count is the length of `open` */
    int64_t lookups_paid;      /* CLOCK_MONOTONIC ns up to which lookups are paid (lease.h) */
    int64_t attributions_paid; /* the same for searches of programs (authorize.c) */
    unsigned lookups_running;
    struct link link;
};

/* Takes over the listeners and the audit descriptor. The box serves at once, and denies everything
 * until a policy is set. Freeing it closes every connection. */
int egress_box_new(struct egress_state *g, const char *id, struct listeners *listeners,
                   int audit_fd, struct egress_box **ret, struct err *e);
void egress_box_free(struct egress_box *b);
/* The policy is in force at once, for all connections: those that it does not allow are closed.
 * Takes a reference. NULL denies everything. */
void egress_box_set_policy(struct egress_box *b, struct egress_snapshot *s);
/* Stores why a received policy is invalid: refusals mention it while no policy is in force. */
void egress_box_note_flaw(struct egress_box *b, const char *why);
/* The reason why everything is denied without a policy: code, text and remedy. */
void egress_box_reason(const struct egress_box *b, struct egress_reason *ret);

/* Marks the expired entries of the policy. Connections that they allowed are closed shortly
 * after. */
void egress_box_expire(struct egress_box *b);

/* How many connections a box may have open now: the worker's descriptors divided by the number of
 * its boxes plus one, so that a new box finds some. */
unsigned egress_box_share(const struct egress_box *b);

/* Add a connection to the box's list and count, or remove it. Removing twice is harmless. */
void egress_open_join(struct egress_box *b, struct egress_open *o);
void egress_open_leave(struct egress_box *b, struct egress_open *o);

/* Takes over the descriptor and joins the box; close NULL: egress_client_end(). */
void egress_client_join(struct egress_client *c, struct egress_box *b, int fd,
                        void (*close)(struct egress_open *o, const char *how));
/* Waits for input; late NULL: egress_client_end(). False: out of resources. */
bool egress_client_wait(struct egress_client *c, int64_t ns, loop_fd_fn *bytes,
                        loop_timer_fn *late);
/* Leaves the box, closes the descriptor, unless it was taken, and frees the owner at the end of the
 * batch. */
void egress_client_end(struct egress_client *c);

#endif
