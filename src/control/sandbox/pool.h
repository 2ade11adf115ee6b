/* Prepared sandboxes: boxes that are built and probed before anybody asks, so that a create is a
 * hand-over.
 *
 * A shelf per profile and version, and a second one, of boxes with a network, for a profile that
 * has none: it is empty until somebody asks. How many stand on it follows demand: each take asks
 * for more, silence for less, between the profile's pool.min and pool.max, and all shelves together
 * stay below the configuration's limit. A box leaves its shelf the moment it is given away, so
 * nobody gets it twice; a box that dies on the shelf is removed. Most boxes are assigned ahead to
 * the owner who was given one last: a create of that owner waits for no hand-over. Boxes on shelves
 * are not in the store: after a crash the sweep removes them. */
#ifndef CONTROL_POOL_H
#define CONTROL_POOL_H

#include "extensions/extension.h"
#include "loop/timer.h"
#include "model/request.h"

struct control;

struct pool {
    struct list shelves;
    struct list boxes;     /* all of them, also those being made and on their way out */
    unsigned total, ready; /* ready: those that could be given away now */
    struct loop_timer tick;
    struct loop_timer refill;
    int64_t refill_at;
    bool closing;
    uint64_t hits, misses;
};

void pool_open(struct control *c);   /* shelves for the catalog's profiles that want one */
void pool_reload(struct control *c); /* the catalog is another one */
void pool_close(struct control *c);  /* tears every box down; done when total is 0 */
void pool_done(struct control *c);
/* Owners are accounts (control/owner_share.h), by their names.
 *
 * A ready box for this owner, profile and request, or NULL. It is the caller's, who assigns it to
 * its owner unless it was assigned ahead. */
struct ext_box *pool_take(struct control *c, const char *owner, struct profile *p,
                          const struct create_request *q, bool *ret_assigned);
/* This owner was given a box: the next ones are assigned ahead. */
void pool_note_owner(struct control *c, const struct profile *p, const struct create_request *q,
                     const char *owner);
/* A box that was taken and is not used after all; NULL is fine. */
void pool_discard(struct control *c, struct ext_box *b);
bool pool_knows(struct control *c, const char *id); /* looks at all of them */

#endif
