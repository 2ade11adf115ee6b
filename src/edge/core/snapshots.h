/* Snapshots for calls, whichever interface they came by. */
#ifndef API_SNAPSHOTS_H
#define API_SNAPSHOTS_H

#include "api/call.h"
#include "control/snapshots.h"

/* Those that the caller sees, the newest first; borrowed until the next turn of the loop. */
struct snapshot_list {
    const struct snapshot **p;
    size_t n, cap_;
};
void snapshot_list_fill(const struct call *c, struct snapshot_list *ret);
void snapshot_list_done(struct snapshot_list *l);

void snapshot_delete_for(struct call *c, const struct snapshot *s); /* answers 204 */

/* What one is asked for with. */
struct snapshot_request {
    const char *name; /* NULL: none */
};
extern const struct json_field snapshot_request_fields[];
extern const size_t snapshot_request_field_count;

/* Takes one of the call's sandbox, which `answer` then tells; a failure is answered here. */
typedef void snapshot_taken_fn(struct call *c, const struct snapshot *s);
void snapshot_take_for(struct call *c, const struct snapshot_request *q, snapshot_taken_fn *answer);

#endif
