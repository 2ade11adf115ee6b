/* What the files of the outbox share. */
#ifndef CONTROL_OUTBOX_INSIDE_H
#define CONTROL_OUTBOX_INSIDE_H

#include "control/plane.h"
#include "fetch/request.h"
#include "json/writer.h"

enum { OUTBOX_HEADERS_MAX = 16 };

/* One event on its way to the hub. */
struct parcel {
    struct fetch_request request;
    struct fetch_header headers[OUTBOX_HEADERS_MAX + 1];
    struct buf head, body;
};

/* What a CloudEvent says around its data. */
struct envelope {
    const char *id, *type, *subject; /* subject "": none */
    int64_t time_ns;
};

/* The body: what comes between the two is its data, one value. */
void parcel_begin(struct outbox *o, struct parcel *p, const struct envelope *v,
                  struct json_writer *w);
int parcel_end(struct json_writer *w, struct err *e);
/* With the headers of now; again and again if need be. */
int parcel_send(struct outbox *o, struct parcel *p, fetch_done_fn *done, struct err *e);
void parcel_done(struct parcel *p); /* cancels it */

bool parcel_taken(const struct fetch_answer *a);
/* Who has failed that often rests that long. */
int64_t outbox_rest_ns(unsigned failures, int64_t at_least_ns);
int64_t outbox_retry_after(const struct fetch_answer *a);
/* The hub answered, or it did not, which is said once. */
void outbox_reached(struct outbox *o);
void outbox_missed(struct outbox *o, const struct fetch_answer *a);

/* --- outbox_egress.c --- */

struct outbox_egress;
struct outbox_egress *outbox_egress_open(struct outbox *o, struct control *c);
void outbox_egress_close(struct outbox_egress *x); /* NULL is fine */

#endif
