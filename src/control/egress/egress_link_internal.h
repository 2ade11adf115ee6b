/* SPDX-License-Identifier: Apache-2.0 */
/* Shared declarations of the egress link files. */
#ifndef CONTROL_EGRESS_EGRESS_LINK_INTERNAL_H
#define CONTROL_EGRESS_EGRESS_LINK_INTERNAL_H

#include <dirent.h>

#include "base/id.h"
#include "control/plane/supervisor.h"
#include "control/egress/egress_link.h"
#include "control/egress/places.h"
#include "engine/egress/chain.h"
#include "engine/egress/wire.h"
#include "domain/model/record.h"

/* The addresses that a worker may connect to: those of the policies of all its links, with
 * reference counts. */
struct worker_places {
    struct counted_place {
        struct gate_place place;
        unsigned refs;
    } * list; /* sorted; room for GATE_PLACES_MAX, or NULL */
    size_t n;
    uint64_t version; /* incremented by each change */
    /* The version that was sent to the supervisor, and that it has set. */
    uint64_t requested, known;
    struct control_request request; /* while `requesting` */
    bool requesting;
    struct loop_timer retry;
    struct list waiting; /* links whose policies need a later version */
};

struct egress_link_worker {
    struct egress_worker process;
    struct control *control;
    struct list egress_links;
    struct list waiting; /* links that wait to be added */
    struct worker_places places;
    size_t n;
    unsigned adding;
    bool opened;
    bool own;                        /* serves one link, and is freed with it */
    char owner[OWNER_MAX];           /* serves one account, and is freed when idle; "": no owner */
    struct link link;                /* in the list of such workers */
    struct loop_later deferred_free; /* defers the free out of its own callbacks */
    struct loop_timer idle;          /* of an owner's worker without links */
};

enum egress_link_state {
    EGRESS_LINK_CLOSED,     /* not known to the worker */
    EGRESS_LINK_REQUESTING, /* the box was asked for its listeners */
    EGRESS_LINK_ADDING,
    EGRESS_LINK_OPEN, /* denies everything, or what its policy does not allow */
    EGRESS_LINK_CLOSING,
};

struct egress_link {
    struct control *control;
    struct backend_box *box;
    struct egress_link_worker *worker;
    struct link link; /* in its worker */
    struct link turn; /* in the worker's `waiting` */
    struct map_entry entry;
    enum egress_link_state state;
    struct policy_text *policy;  /* the wanted policy; NULL: none */
    struct policy_text *counted; /* the policy whose places the worker has; NULL: none */
    uint64_t needs; /* version of the worker's places that includes its own; 0: it has none */
    struct link place_turn;    /* in the `waiting` of the places */
    struct loop_timer recount; /* reports a failed count from the loop */
    uint64_t generation, sent, applied;
    char flaw[sizeof((struct err *)0)->msg]; /* why the policy is not in force; "" */
    struct list waiting;                     /* struct egress_link_op */
    struct egress_link_op *closing;
    struct loop_timer retry;
    struct egress_link_counters before, now; /* of earlier workers; of this one */
    struct {
        uint64_t file;
        int64_t size;
    } log;                   /* its audit file at the last check */
    struct chain_place line; /* the last line that its worker has reported */
    uint64_t anchored;       /* seq of the last line that is on record */
    char owner[OWNER_MAX];   /* "": not known yet */
    char family[ID_MAX];     /* of the token that made its sandbox; "": none */
    struct {
        struct quota_hold hold; /* bytes of its logs on disk */
        uint64_t begun, given;  /* size when the worker got the descriptor; bytes that it may add */
        enum wire_lack lack;    /* why room is refused */
        bool logged;            /* that lack, in the daemon's log */
    } room;
};

/* --- egress_link.c --- */

/* Grants the worker more room for the log, or reports why not. */
void egress_link_give_room(struct egress_link *o);
/* Begins the next part of the log. */
void egress_link_rotate_log(struct egress_link *o);
extern const struct egress_worker_events egress_link_worker_events;
void egress_link_forget(struct egress_link *o); /* frees it without completing waiting operations */
void egress_link_advance(struct egress_link *o);
void egress_link_policy_failed(struct egress_link *o, int r, const struct err *e);

/* --- egress_link_workers.c --- */

/* Assigns a new egress link to a worker. */
void egress_link_join_worker(struct egress_link *o, enum egress_link_share share,
                             const char *owner);
void egress_link_leave_worker(struct egress_link *o);

/* --- egress_link_places.c --- */

/* Counts the places of the link's policy instead of those of its previous one. Changes nothing on
 * failure. */
int egress_link_count_places(struct egress_link *o, struct err *e);
/* Whether the supervisor has set them; if not, egress_link_advance() is called later. */
bool egress_link_has_places(struct egress_link *o);
void egress_link_drop_places(struct egress_link *o);
void egress_link_places_up(struct egress_link_worker *w);
void egress_link_places_down(struct egress_link_worker *w);
void egress_link_places_done(struct egress_link_worker *w);

/* --- egress_log.c --- */

/* A directory of logs; ".": all. NULL: it cannot be read. */
DIR *egress_link_open_dir(const struct control *c, const char *name);
static inline void close_dirp_(DIR **d) /* for AUTO() */
{
    if (*d)
        closedir(*d);
}

/* Opens the log exclusively, for a worker: -ERR_BUSY while another worker has it. Removes the
 * incomplete last line of a killed worker: it allowed nothing. *ret_at is the last line, which the
 * chain continues from. */
int egress_link_log_append(const struct control *c, const char *box, int *ret,
                           struct chain_place *ret_at, struct err *e);
/* Rotates the log; *ret is a new part for appending. */
int egress_link_log_rotate(const struct control *c, const char *box, int *ret, struct err *e);
/* Whether the log was written to since the last call. */
bool egress_link_log_moved(struct egress_link *o);
/* Bytes of a part, and of the whole log. */
uint64_t egress_link_part_bytes(const struct control *c, const char *box, uint32_t part);
uint64_t egress_link_log_bytes(const struct control *c, const char *box);
/* -1: none. */
int64_t egress_link_part_time(const struct control *c, const char *box, uint32_t part);
/* False: there was no such part. */
bool egress_link_remove_part(const struct control *c, const char *box, uint32_t part);
/* Whether a file is a part of a log, and of which box. */
bool egress_link_log_box(const char *file, char ret[static ID_MAX]);
/* Sets its time to the end of the egress link, like the record's. */
void egress_link_log_date(const struct control *c, const char *box);

/* --- egress_log_room.c --- */

int egress_link_room_open(struct control *c, struct err *e); /* blocks */
void egress_link_room_close(struct control *c);
/* The room that a worker has for its log. */
struct egress_link_room {
    uint64_t bytes; /* in total, for its current descriptor */
    enum wire_lack lack;
};
/* The log was opened, or rotated. */
struct egress_link_room egress_link_room_begin(struct egress_link *o);
/* Most of the room is used. */
struct egress_link_room egress_link_room_more(struct egress_link *o);
void egress_link_room_end(struct egress_link *o);
/* Files of a box were removed. */
void egress_link_room_recount(struct control *c, const char *box);
/* Size of a part at which the log is rotated. */
uint64_t egress_link_part_max(const struct control *c);

/* --- egress_log_expiry.c --- */

/* The cut of the chain if that part and all before it are removed, and the last line. False: the
 * log has no chain. */
bool egress_link_find_cut(const struct control *c, const char *box, uint32_t part,
                          struct egress_head_record *ret);

/* --- egress_link_who.c --- */

void egress_links_open_hashing(struct control *c);

#endif
