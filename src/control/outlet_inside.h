/* What the files of outlets share. */
#ifndef CONTROL_OUTLET_INSIDE_H
#define CONTROL_OUTLET_INSIDE_H

#include "base/id.h"
#include "control/control.h"
#include "control/outlet.h"
#include "control/places.h"
#include "egress/chain.h"
#include "egress/wire.h"
#include "model/record.h"

/* The places that a worker may connect to: those of all its outlets' policies, counted. */
struct worker_places {
    struct counted_place {
        struct gate_place place;
        unsigned refs;
    } * list; /* sorted; room for GATE_PLACES_MAX, or NULL */
    size_t n;
    uint64_t version;               /* counts changes */
    uint64_t asked, known;          /* the version that the supervisor was sent, and has set */
    struct control_request request; /* while `asking` */
    bool asking;
    struct loop_timer again;
    struct list waiting; /* outlets whose policies come after it */
};

struct outlet_worker {
    struct egress_worker process;
    struct control *control;
    struct list outlets;
    struct list waiting; /* those whose turn to be added has not come */
    struct worker_places places;
    size_t n;
    unsigned adding;
    bool opened;
    bool own;               /* of one outlet alone, and gone with it */
    char owner[OWNER_MAX];  /* of one account alone, and gone when idle; "": of no owner */
    struct link link;       /* both: in the list of them */
    struct loop_later gone; /* never from inside its own call */
    struct loop_timer idle; /* of an owner's without outlets */
};

enum outlet_state {
    OUTLET_CLOSED, /* the worker knows nothing of it */
    OUTLET_ASKING, /* the box for its listeners */
    OUTLET_ADDING,
    OUTLET_OPEN, /* denies all, or what its policy does not allow */
    OUTLET_CLOSING,
};

struct outlet {
    struct control *control;
    struct ext_box *box;
    struct outlet_worker *worker;
    struct link link; /* in its worker */
    struct link turn; /* in its worker's waiting ones */
    struct index_entry entry;
    enum outlet_state state;
    struct policy_text *policy;  /* that shall hold; NULL: none */
    struct policy_text *counted; /* whose places its worker has; NULL: none */
    uint64_t needs;              /* version of the worker's places that has them; 0: it has none */
    struct link place_turn;      /* among those that wait for it */
    struct loop_timer recount;   /* of places that could not be counted: to fail from the loop */
    uint64_t generation, sent, applied;
    struct list waiting; /* struct outlet_op */
    struct outlet_op *closing;
    struct loop_timer rest;
    struct outlet_counters before, now; /* of workers that died; of this one */
    struct {
        uint64_t file;
        int64_t size;
    } log;                   /* its audit file when it was last looked at */
    struct chain_place line; /* the last one that its worker has told of */
    uint64_t anchored;       /* the last one that is on record */
    char owner[OWNER_MAX];   /* "": not known yet */
    char family[ID_MAX];     /* of the token that made its sandbox; "": none */
    struct {
        struct quota_hold hold; /* what its logs may take on disk */
        uint64_t begun, given;  /* size when the worker got the descriptor; bytes it may add */
        enum wire_lack lack;    /* why there is no more */
        bool told;              /* of that, in the daemon's log */
    } room;
};

/* --- outlet.c --- */

/* Lets the worker write more to the log, or says why not. */
void outlet_give_room(struct outlet *o);
/* Begins the next part of the log. */
void outlet_rotate_log(struct outlet *o);
extern const struct egress_worker_events outlet_worker_events;
void outlet_forget(struct outlet *o); /* frees it; who waits is not told */
void outlet_advance(struct outlet *o);
void outlet_policy_failed(struct outlet *o, int r, const struct err *e);

/* --- outlet_workers.c --- */

/* The worker for a new outlet, which is among its outlets from now on. */
void outlet_join_worker(struct outlet *o, enum outlet_share share, const char *owner);
void outlet_leave_worker(struct outlet *o);

/* --- outlet_places.c --- */

/* Counts the places of the outlet's policy, in place of those of the one before. On failure nothing
 * has changed. */
int outlet_count_places(struct outlet *o, struct err *e);
/* Whether the supervisor has set them; if not, outlet_advance() is called when it has. */
bool outlet_has_places(struct outlet *o);
void outlet_drop_places(struct outlet *o);
void outlet_places_up(struct outlet_worker *w);
void outlet_places_down(struct outlet_worker *w);
void outlet_places_done(struct outlet_worker *w);

/* --- outlet_log.c --- */

/* For a worker, which is the only one that has it: -ERR_BUSY while another one still does. What a
 * worker that was killed left of a line is removed: nothing was allowed by it. *ret_at is the last
 * line, behind which the chain goes on. */
int outlet_log_append(const struct control *c, const char *box, int *ret,
                      struct chain_place *ret_at, struct err *e);
/* Puts it aside; a new one for appending. */
int outlet_log_rotate(const struct control *c, const char *box, int *ret, struct err *e);
/* Whether something was written since this was last asked. */
bool outlet_log_moved(struct outlet *o);
/* Bytes of a part, and of all. */
uint64_t outlet_part_bytes(const struct control *c, const char *box, uint32_t part);
uint64_t outlet_log_bytes(const struct control *c, const char *box);
int64_t outlet_part_time(const struct control *c, const char *box, uint32_t part); /* -1: none */
/* False: there was none. */
bool outlet_remove_part(const struct control *c, const char *box, uint32_t part);
/* Whether a file is a part of a log, and of which box. */
bool outlet_log_box(const char *file, char ret[static ID_MAX]);
/* Its time is that of the outlet's end, as the record's is. */
void outlet_log_date(const struct control *c, const char *box);

/* --- outlet_room.c --- */

int outlet_room_open(struct control *c, struct err *e); /* blocks */
void outlet_room_close(struct control *c);
/* What a worker may write. */
struct outlet_room {
    uint64_t bytes; /* to the descriptor that it has, in all */
    enum wire_lack lack;
};
/* The log was opened, or begun anew. */
struct outlet_room outlet_room_begin(struct outlet *o);
/* Most of that is used. */
struct outlet_room outlet_room_more(struct outlet *o);
void outlet_room_end(struct outlet *o);
/* Files of a box were removed. */
void outlet_room_recount(struct control *c, const char *box);
/* Bytes of a part of a log at which the next part is begun. */
uint64_t outlet_part_max(const struct control *c);

/* --- outlet_expiry.c --- */

/* Where the chain is cut when that part and all before it are removed, and its last line. False:
 * the log has no chain. */
bool outlet_find_cut(const struct control *c, const char *box, uint32_t part,
                     struct egress_head_record *ret);

#endif
