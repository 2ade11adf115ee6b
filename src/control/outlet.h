/* Outlets: the ways out of sandboxes, each a box's listeners in the hands of an egress worker.
 *
 * An outlet belongs to a box, whoever has that: a shelf of the pool, then a sandbox. From
 * outlet_new() on a worker serves its listeners and denies everything; a policy is in force when
 * the worker has said so. When a worker dies, its boxes have no network until the next one was
 * given their listeners and policies again, which happens by itself. */
#ifndef CONTROL_OUTLET_H
#define CONTROL_OUTLET_H

#include "control/egress_worker.h"
#include "control/feed.h"
#include "control/index.h"
#include "control/policy_text.h"
#include "extensions/extension.h"
#include "quota/quota.h"

struct control;
struct profile;
struct outlet;
struct outlet_worker;

/* Of all time, over all workers that an outlet had. */
struct outlet_counters {
    uint64_t allowed, denied, connections, bytes_out, bytes_in;
};

/* A program's file, as far as its content depends on it, and its hash. */
struct who_file {
    uint64_t dev, ino, size;
    int64_t mtime_ns, ctime_ns;
};
struct who_known {
    struct who_file file;
    char hash[72];
};
enum { WHO_CACHE_N = 64 };

struct outlets {
    struct outlet_worker *workers; /* each is started when it gets its first box */
    size_t n;
    struct list own;              /* those of one sandbox or one owner alone */
    uint64_t restarts;            /* of such that are gone */
    struct index index;           /* outlets by the id of their box */
    struct outlet_counters ended; /* of outlets that are gone */
    int dir;                      /* of audit files */
    struct index ended_logs;      /* of boxes without an outlet; outlet_room.c */
    struct quota log_bytes;       /* by owner */
    uint64_t dropped;             /* bytes of logs that made room before their time */
    struct who_known known[WHO_CACHE_N];
    unsigned hashing; /* programs that are being read */
};

int outlets_open(struct control *c, struct err *e);
void outlets_close(struct control *c);
struct outlet_counters outlets_counters(struct control *c);
uint64_t outlets_restarts(struct control *c);

/* Which sandboxes the same worker serves. */
enum outlet_share { OUTLET_SHARED, OUTLET_OWNER, OUTLET_OWN };

/* As the profile says; NULL: it is not known any more, so its own. Where the daemon serves tenants,
 * no worker serves two owners. */
enum outlet_share outlet_share(const struct control *c, const struct profile *p);

/* Its box is there, and stays until outlet_free(). owner: whose box it is, for OUTLET_OWNER; else
 * it may be NULL, and so may its family. */
struct outlet *outlet_new(struct control *c, struct ext_box *b, enum outlet_share share,
                          const char *owner, const char *family);
/* Of one that was made before anybody knew. */
void outlet_set_owner(struct outlet *o, const char *owner, const char *family);
/* The worker lets go of it, if it has not yet. Who waits is told. NULL is fine. */
void outlet_free(struct outlet *o);
struct outlet *outlet_find(struct control *c, const char *box); /* NULL: there is none */

/* A wait for a policy to be in force, or for the end. */
struct outlet_op {
    void (*done)(struct outlet_op *op, int r, const struct err *e);
    /* private */
    uint64_t generation_;
    struct outlet *outlet_;
    struct link link_;
    struct loop_timer timer_;
};
/* In place of the one before. op may be NULL; done comes from the loop or from outlet_free(). */
void outlet_set_policy(struct outlet *o, struct policy_text *t, uint64_t generation,
                       struct outlet_op *op);

/* Tells who waits for a policy that it is on its way out. */
void outlet_abandon(struct outlet *o);
/* The worker lets go of it, and closes its connections. done, from the loop: it has told its last
 * counters and written its last line, or would not; outlet_free() is next. */
void outlet_close(struct outlet *o, struct outlet_op *op);

struct outlet_counters outlet_counters(const struct outlet *o);
/* The last line of its log that its worker has told of. */
struct egress_head_record;
void outlet_put_line(const struct outlet *o, struct egress_head_record *ret);
uint64_t outlet_in_force(const struct outlet *o); /* generation; 0: none, nothing passes */

/* For struct ext_box_events of whoever has the box. */
void outlet_listeners(struct control *c, struct ext_box *b, int r, const struct err *e,
                      struct listeners *l);
void outlet_who(struct control *c, struct ext_box *b, uint64_t tag, int r, const struct err *e,
                const struct ext_who *w);

/* The parts of a box's log, the oldest first. The last one is written, the others were put aside.
 */
#define OUTLET_PART_NOW     UINT32_MAX
#define OUTLET_PART_EARLIER 0u /* put aside by an earlier version */
enum { OUTLET_PARTS_MAX = 256 };
struct outlet_parts {
    size_t n;
    uint32_t parts[OUTLET_PARTS_MAX + 2];
};
void outlet_list_parts(const struct control *c, const char *box, struct outlet_parts *ret);
/* For reading: -ERR_NOT_FOUND. */
int outlet_open_part(const struct control *c, const char *box, uint32_t part, int *ret,
                     struct err *e);
/* How far the hub has it; false: nothing is known of that. */
bool outlet_log_sent(const struct control *c, const char *box, struct feed_place *ret);
void outlet_log_note_sent(const struct control *c, const char *box, const struct feed_place *at);
/* Each box of whose log the hub may not have all. */
void outlets_each_unsent(const struct control *c, void (*fn)(void *user, const char *box),
                         void *user);
void outlet_remove_logs(struct control *c, const char *box);
/* Removes records that are older than egress.audit_keep, and puts aside parts that hold records of
 * more than an eighth of that time. */
void outlets_expire_logs(struct control *c);
/* Outlets that are denied what their logs have no room for. */
size_t outlets_full_logs(struct control *c);

#endif
