/* Sandboxes as E2B's clients see them. */
#ifndef API_E2B_SHOWN_H
#define API_E2B_SHOWN_H

#include "api/call.h"

struct e2b_shown {
    const struct call *call; /* by whom */
    const struct sandbox_record *record;
    int64_t expires_ns;
};

/* What it was asked for by; nothing, if that cannot be read any more. */
struct create_request e2b_asked_for(const struct sandbox_record *r, struct arena *a);

struct e2b_shown e2b_show(const struct call *c); /* the call's sandbox */

/* What is told of one that was created or connected to: how to get in. */
void e2b_write_made(struct json_writer *w, const void *shown);
/* A row of the list. */
void e2b_write_listed(struct json_writer *w, const void *shown);
/* All of it; of a live one. */
void e2b_write_info(struct json_writer *w, const void *shown);

/* How large it is, which its profile says. That may have gone since. */
struct e2b_size {
    uint32_t processors, memory_mb, disk_mb;
};
struct e2b_size e2b_size(const struct call *c, const struct sandbox_record *r);
struct e2b_size e2b_profile_size(const struct profile *p);
void e2b_put_size(struct json_writer *w, const struct e2b_size *s);

/* Whether the call's sandbox is there for E2B's clients: not on its way out; and not paused either.
 * False: it is answered. */
bool e2b_is_there(struct call *c);
bool e2b_is_running(struct call *c);

#endif
