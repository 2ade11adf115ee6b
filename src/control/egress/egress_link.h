/* SPDX-License-Identifier: Apache-2.0 */
/* Egress links: each connects the listeners of a box to an egress worker.
 *
 * An egress link belongs to a box, first on a shelf of the pool, then of a sandbox. From
 * egress_link_new() on, a worker serves its listeners and denies everything; a policy is in force
 * when the worker has confirmed it. When a worker dies, its boxes have no network until the next
 * worker has received their listeners and policies, which happens automatically. */
#ifndef CONTROL_EGRESS_EGRESS_LINK_H
#define CONTROL_EGRESS_EGRESS_LINK_H

#include "control/egress/egress_worker.h"
#include "control/egress/egress_tail.h"
#include "lib/map/map.h"
#include "control/egress/policy_text.h"
#include "backends/backend.h"
#include "lib/quota/quota.h"
#include "lib/quota/turns.h"

struct control;
struct profile;
struct egress_link;
struct egress_link_worker;

/* Totals over all workers of an egress link. */
struct egress_link_counters {
    uint64_t allowed, denied, connections, bytes_out, bytes_in;
};

/* Identity of a program's file, which changes with its content, and its hash. */
struct who_file {
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
};
struct who_known {
    struct who_file file;
    char hash[72];
};
enum { WHO_CACHE_N = 64 };

struct egress_links {
    struct egress_link_worker *workers; /* each is started when it gets its first box */
    size_t n;
    struct list own;                   /* workers of one sandbox or one owner */
    uint64_t restarts;                 /* of such workers that have ended */
    struct map by_box;                 /* egress links by the id of their box */
    struct egress_link_counters ended; /* of links that were freed */
    int dir;                           /* of audit files */
    struct map ended_logs;             /* of boxes without an egress link; egress_log_room.c */
    struct quota log_bytes;            /* by owner */
    uint64_t dropped; /* bytes of logs that were removed before their retention time */
    struct who_known known[WHO_CACHE_N];
    struct turns hashing; /* of programs, by account: egress_link_who.c */
};

int egress_links_open(struct control *c, struct err *e);
void egress_links_close(struct control *c);
struct egress_link_counters egress_links_counters(struct control *c);
uint64_t egress_links_restarts(struct control *c);

/* Which sandboxes the same worker serves. */
enum egress_link_share { EGRESS_LINK_SHARED, EGRESS_LINK_OWNER, EGRESS_LINK_OWN };

/* As the profile says; NULL: the profile is unknown, so a worker of its own. If the daemon serves
 * tenants, no worker serves two owners. */
enum egress_link_share egress_link_share(const struct control *c, const struct profile *p);

/* The box must outlive the link. owner: of the box; required for EGRESS_LINK_OWNER, else it may be
 * NULL, and so may its family. */
struct egress_link *egress_link_new(struct control *c, struct backend_box *b,
                                    enum egress_link_share share, const char *owner,
                                    const char *family);
/* For a link that was created before its owner was known. */
void egress_link_set_owner(struct egress_link *o, const char *owner, const char *family);
/* Removes it from the worker, if that has not happened yet, and fails waiting operations. NULL is
 * fine. */
void egress_link_free(struct egress_link *o);
struct egress_link *egress_link_find(struct control *c, const char *box); /* NULL: none */

/* Waits for a policy to be in force, or for the close. */
struct egress_link_op {
    void (*done)(struct egress_link_op *op, int r, const struct err *e);
    /* private */
    uint64_t generation_;
    struct egress_link *egress_link_;
    struct link link_;
    struct loop_timer timer_;
};
/* Replaces the policy. op may be NULL; done is called from the loop or from egress_link_free(). */
void egress_link_set_policy(struct egress_link *o, struct policy_text *t, uint64_t generation,
                            struct egress_link_op *op);

/* Fails the operations that wait for a policy: the sandbox is ending. */
void egress_link_abandon(struct egress_link *o);
/* Removes the link from the worker, which closes its connections. done is called from the loop,
 * when the worker has reported its last counters and written its last line, or has timed out; then
 * call egress_link_free(). */
void egress_link_close(struct egress_link *o, struct egress_link_op *op);

struct egress_link_counters egress_link_counters(const struct egress_link *o);
/* The last line of its log that its worker has reported. */
struct egress_head_record;
void egress_link_fill_head(const struct egress_link *o, struct egress_head_record *ret);
uint64_t
egress_link_in_force(const struct egress_link *o); /* generation; 0: none, nothing passes */
/* Why the policy that was set is not in force; NULL: it is, or is on its way. */
const char *egress_link_flaw(const struct egress_link *o);
void egress_link_log_flaw(const char *box, uint64_t generation, const char *why);

/* For struct backend_box_events of the box's owner. */
void egress_link_on_listeners(struct control *c, struct backend_box *b, int r, const struct err *e,
                              struct listeners *l);
void egress_link_on_who(struct control *c, struct backend_box *b, uint64_t tag, int r,
                        const struct err *e, const struct backend_who *w);

/* The parts of a box's log, the oldest first. The last one is being written, the others were
 * rotated. */
#define EGRESS_LINK_PART_NOW     UINT32_MAX
#define EGRESS_LINK_PART_EARLIER 0u /* rotated by an earlier version */
enum { EGRESS_LINK_PARTS_MAX = 256 };
struct egress_link_parts {
    size_t n;
    uint32_t parts[EGRESS_LINK_PARTS_MAX + 2];
};
void egress_link_list_parts(const struct control *c, const char *box,
                            struct egress_link_parts *ret);
/* Opens a part for reading; -ERR_NOT_FOUND. */
int egress_link_open_part(const struct control *c, const char *box, uint32_t part, int *ret,
                          struct err *e);
/* The position up to which the hub has accepted the log; false: unknown. */
bool egress_link_log_sent(const struct control *c, const char *box, struct egress_tail_place *ret);
void egress_link_log_note_sent(const struct control *c, const char *box,
                               const struct egress_tail_place *at);
/* Each box whose log the hub may not have accepted completely. */
void egress_links_each_unsent(const struct control *c, void (*fn)(void *user, const char *box),
                              void *user);
void egress_link_remove_logs(struct control *c, const char *box);
/* Removes records that are older than egress.audit_keep, and rotates parts that hold records of
 * more than an eighth of that time. */
void egress_links_expire_logs(struct control *c);
/* Number of links that deny requests because their logs are full. */
size_t egress_links_full_logs(struct control *c);

#endif
