/* SPDX-License-Identifier: Apache-2.0 */
/* Prepared sandboxes: boxes that are provisioned and probed before a request, so that a create only
 * has to hand one over.
 *
 * There is a shelf per profile and version, and a second one, of boxes with a network, for a
 * profile that has none: it is empty until the first such request. The size of a shelf follows
 * demand: each take raises it, quiet time lowers it, between the profile's pool.min and
 * pool.max, and all shelves together stay below the configuration's limit. A box leaves its
 * shelf at the moment it is handed out, so it is handed out once; a box that dies on the shelf
 * is removed. Most boxes are assigned ahead to the owner of the last hand-out: creates of that
 * owner need no assignment. Boxes on shelves are not in the store: after a crash the orphan
 * sweep removes them. */
#ifndef CONTROL_SANDBOX_POOL_H
#define CONTROL_SANDBOX_POOL_H

#include "backends/backend.h"
#include "lib/loop/timer.h"
#include "domain/model/request.h"

struct control;

struct pool {
    struct control *control;
    struct list shelves;
    struct list boxes;     /* all boxes, also those being provisioned or torn down */
    unsigned total, ready; /* ready: boxes that can be handed out now */
    struct loop_timer tick;
    struct loop_timer refill;
    int64_t refill_at;
    bool closing;
    uint64_t hits, misses;
};

void pool_open(struct control *c);   /* adds shelves for the catalog's profiles that ask for one */
void pool_reload(struct control *c); /* the catalog was replaced */
void pool_close(struct control *c);  /* tears every box down; done when total is 0 */
void pool_done(struct control *c);
/* Owners are names of accounts (control/owner/owner_share.h).
 *
 * Returns a ready box for this owner, profile and request, or NULL. The caller owns it, and assigns
 * it to its owner unless it was assigned ahead. */
struct backend_box *pool_take(struct control *c, const char *owner, struct profile *p,
                              const struct create_request *q, bool *ret_assigned);
/* The owner was handed a box: assign the next ones ahead to it. */
void pool_note_owner(struct control *c, const struct profile *p, const struct create_request *q,
                     const char *owner);
/* Tears down a box that was taken but not used; NULL is fine. */
void pool_destroy_box(struct control *c, struct backend_box *b);
bool pool_knows(struct control *c, const char *id); /* searches all boxes */

#endif
