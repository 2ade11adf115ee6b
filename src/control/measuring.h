/* What captured layers hold is put on record while nobody waits for it, one after the other.
 *
 * A capture is to cost the same however much was written, so nothing of it is read then. It is some
 * seconds later, at the lowest priority: what does not live so long costs nothing. What then turns
 * out to be what an older snapshot of the same owner has already takes no room of its own any more
 * (control/sharing.c). Nothing is lost by a crash: what has no measure is measured after the next
 * start. */
#ifndef CONTROL_MEASURING_H
#define CONTROL_MEASURING_H

#include "control/measure.h"
#include "control/snapshots.h"

struct measuring {
    struct list waiting; /* struct layer, in the order in which they are due */
    struct loop_timer timer;
    char layer[LAYER_NAME_MAX]; /* that is under way; "": none is */
    struct measure_op op;
    struct sharing {
        const char *layers[LAYERS_OF_SNAPSHOT_MAX]; /* that its snapshot gets */
        char names[LAYERS_OF_SNAPSHOT_MAX][LAYER_NAME_MAX];
        size_t twin;          /* which of them is there in place of `layer` */
        struct measure_op op; /* that is still what it was? */
        struct restack_op restack;
    } sharing;
};

void measuring_open(struct control *c); /* when all that is there is known */
void measuring_close(struct control *c);

/* A layer that somebody holds is whole on disk, or a snapshot of it is on record. */
void layer_made(struct control *c, const char *name);
void measuring_forget(struct control *c, struct layer *l); /* nobody needs it any more */

/* Snapshots that have c->measuring.layer get an older one that is the same; then goes on. */
void measuring_share(struct control *c);
void measuring_next(struct control *c);

#endif
