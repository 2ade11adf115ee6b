/* Jobs on layers, done by keepers (layers/job.h), as operations on the loop. */
#ifndef CONTROL_KEEPER_H
#define CONTROL_KEEPER_H

#include "control/control.h"
#include "layers/job.h"
#include "loop/fd.h"

struct keeper_job;

/* Each may be NULL but `done`, which is called once and is the last. From any of them the job may
 * be cancelled or its owner freed. */
struct keeper_events {
    void (*ready)(struct keeper_job *j); /* of a kind that waits: keeper_go() */
    void (*progress)(struct keeper_job *j, uint64_t bytes, uint64_t entries);
    void (*line)(struct keeper_job *j, const char *text);
    void (*taken)(struct keeper_job *j); /* what was to be read has been */
    /* said: bytes, entries, text of its last word; NULL if r < 0 */
    void (*done)(struct keeper_job *j, int r, const struct err *e, const struct layers_said *said);
};

/* A member of its owner. */
struct keeper_job {
    const struct keeper_events *events;
    enum layers_kind kind;
    struct loop_fd fd_;
    struct loop_timer first_word_;
    int sock_;
    bool running;
};

/* Starts it; the descriptors stay the caller's. Does not wait. On failure nothing is told. */
int keeper_start(struct control *c, struct keeper_job *j, const struct keeper_events *events,
                 const struct layers_job *job, const int *fds, size_t n, struct err *e);
void keeper_go(struct keeper_job *j);
/* Nothing is told any more; what the keeper has not finished is undone. Harmless on one that does
 * not run. */
void keeper_cancel(struct keeper_job *j);

#endif
