/* SPDX-License-Identifier: Apache-2.0 */
/* Shared declarations of the event delivery files. */
#ifndef CONTROL_EVENT_EVENT_DELIVERY_INTERNAL_H
#define CONTROL_EVENT_EVENT_DELIVERY_INTERNAL_H

#include "control/plane/plane.h"
#include "lib/fetch/request.h"
#include "lib/json/writer.h"

enum { EVENT_DELIVERY_HEADERS_MAX = 16 };

/* One event that is being delivered. */
struct parcel {
    struct fetch_request request;
    struct fetch_header headers[EVENT_DELIVERY_HEADERS_MAX + 1];
    struct buf head, body;
};

/* The attributes of a CloudEvent. */
struct event_envelope {
    const char *id, *type, *subject; /* subject "": none */
    int64_t time_ns;
};

/* Begin and end the body: one value between the two is its data. */
void parcel_begin(struct event_delivery *o, struct parcel *p, const struct event_envelope *v,
                  struct json_writer *w);
int parcel_end(struct json_writer *w, struct err *e);
/* Sends it with the current headers; may be repeated. */
int parcel_send(struct event_delivery *o, struct parcel *p, fetch_done_fn *done, struct err *e);
void parcel_done(struct parcel *p); /* cancels it */

bool parcel_accepted(const struct fetch_answer *a);
/* The backoff after that many failures. */
int64_t event_delivery_backoff_ns(unsigned failures, int64_t at_least_ns);
int64_t event_delivery_retry_after(const struct fetch_answer *a);
/* The hub answered, or did not; changes are logged once. */
void event_delivery_note_reachable(struct event_delivery *o);
void event_delivery_note_unreachable(struct event_delivery *o, const struct fetch_answer *a);

/* --- event_delivery_egress.c --- */

struct event_delivery_egress;
struct event_delivery_egress *event_delivery_egress_open(struct event_delivery *o,
                                                         struct control *c);
void event_delivery_egress_close(struct event_delivery_egress *x); /* NULL is fine */

#endif
