/* What the files of outlets share. */
#ifndef CONTROL_OUTLET_INSIDE_H
#define CONTROL_OUTLET_INSIDE_H

#include "base/id.h"
#include "control/outlet.h"

struct outlet_worker {
    struct egress_worker process;
    struct control *control;
    struct list outlets;
    struct list waiting; /* those whose turn to be added has not come */
    size_t n;
    unsigned adding;
    bool opened;
    bool own;               /* of one outlet alone, and gone with it */
    struct link link;       /* those: in the list of them */
    struct loop_later gone; /* never from inside its own call */
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
    struct policy_text *policy; /* that shall hold; NULL: none */
    uint64_t generation, sent, applied;
    struct list waiting; /* struct outlet_op */
    struct outlet_op *closing;
    struct loop_timer rest;
    struct outlet_counters before, now; /* of workers that died; of this one */
    struct {
        uint64_t file;
        int64_t size;
    } log; /* its audit file when it was last looked at */
};

/* --- outlet.c --- */
extern const struct egress_worker_events outlet_worker_events;
void outlet_forget(struct outlet *o); /* frees it; who waits is not told */

/* --- outlet_workers.c --- */

/* The worker for a new outlet, which is among its outlets from now on. */
void outlet_join_worker(struct outlet *o, enum outlet_share share);
void outlet_leave_worker(struct outlet *o);

/* --- outlet_log.c --- */

int outlet_log_append(const struct control *c, const char *box, int *ret, struct err *e);
/* Puts it aside, in place of the one before; the new one for appending. */
int outlet_log_rotate(const struct control *c, const char *box, int *ret, struct err *e);
/* Whether something was written since this was last asked. */
bool outlet_log_moved(struct outlet *o);
/* Its time is that of the outlet's end, as the record's is. */
void outlet_log_date(const struct control *c, const char *box);

#endif
