/* SPDX-License-Identifier: Apache-2.0 */
/* Delivers egress denials to the hub: one at a time, in turns between boxes, with retries until
 * each is accepted. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/egress/egress_link.h"
#include "control/event/event_delivery_internal.h"

struct event_delivery_egress {
    struct event_delivery *event_delivery;
    struct control *control;
    struct egress_tail_reader tail;
    struct parcel parcel;
    struct loop_timer backoff;
    unsigned failures;
    bool busy; /* the parcel's denial is not accepted yet */
    char box[ID_MAX];
    struct egress_tail_place end; /* position after the denial */
};

static void send_next_denial(struct event_delivery_egress *x);
static void on_denial_answer(struct fetch_request *q, const struct fetch_answer *a);

static void on_denial_retry(struct loop_timer *t);

static void back_off_denial(struct event_delivery_egress *x, int64_t at_least_ns)
{
    int64_t ns = event_delivery_backoff_ns(x->failures++, at_least_ns);

    loop_timer_start(x->control->loop, &x->backoff, clock_mono() + ns, on_denial_retry, NULL);
}

static void send_denial(struct event_delivery_egress *x)
{
    struct err e;

    if (parcel_send(x->event_delivery, &x->parcel, on_denial_answer, &e) >= 0)
        return;
    if (!x->failures)
        LOG(WARN, "hub.failed", LOG_S("lane", x->box), LOG_S("error", e.msg));
    back_off_denial(x, 0);
}

static void on_denial_retry(struct loop_timer *t)
{
    send_denial(container_of(t, struct event_delivery_egress, backoff));
}

static void on_denial_answer(struct fetch_request *q, const struct fetch_answer *a)
{
    struct event_delivery_egress *x = container_of(q, struct event_delivery_egress, parcel.request);

    bool unreachable = a->err.code != ERR_OK;

    if (unreachable)
        event_delivery_note_unreachable(x->event_delivery, a);
    else
        event_delivery_note_reachable(x->event_delivery);
    if (!parcel_accepted(a)) {
        if (!unreachable && !x->failures)
            LOG(WARN, "hub.refused", LOG_S("lane", x->box), LOG_I("status", a->status));
        back_off_denial(x, unreachable ? 0 : event_delivery_retry_after(a));
        return;
    }
    x->failures = 0;
    x->busy = false;
    egress_link_log_note_sent(x->control, x->box, &x->end);
    send_next_denial(x);
}

/* A line always has the same id. */
static int write_denial_event(struct event_delivery_egress *x, const struct egress_tail_line *l,
                              struct err *e)
{
    struct event_envelope v = { .type = egress_tail_types[l->kind],
                                .subject = x->box,
                                .time_ns = l->time_ms * NS_PER_MS };
    struct json_writer w;
    char id[ID_MAX + 48];

    snprintf(x->box, sizeof x->box, "%s", l->box);
    x->end = l->end;
    snprintf(id, sizeof id, "%s-%lld-%lld", x->box, (long long)x->end.file, (long long)x->end.at);
    v.id = id;
    parcel_begin(x->event_delivery, &x->parcel, &v, &w);
    egress_tail_write(&w, l);
    return parcel_end(&w, e);
}

static void send_next_denial(struct event_delivery_egress *x)
{
    struct egress_tail_line l;
    struct err e;

    while (!x->busy && egress_tail_next(&x->tail, &l) > 0) {
        if (write_denial_event(x, &l, &e) < 0) { /* no line is that long */
            LOG(ERROR, "hub.failed", LOG_S("lane", x->box), LOG_S("error", e.msg));
            continue;
        }
        x->busy = true;
        send_denial(x);
    }
}

static void on_tail_more(struct egress_tail_reader *r)
{
    send_next_denial(container_of(r, struct event_delivery_egress, tail));
}

static bool sees_every_box(struct egress_tail_reader *r, const char *box)
{
    return true;
}

static bool find_sent_place(struct egress_tail_reader *r, const char *box,
                            struct egress_tail_place *ret)
{
    return egress_link_log_sent(container_of(r, struct event_delivery_egress, tail)->control, box,
                                ret);
}

static void on_box_log_finished(struct egress_tail_reader *r, const char *box,
                                const struct egress_tail_place *at)
{
    egress_link_log_note_sent(container_of(r, struct event_delivery_egress, tail)->control, box,
                              at);
}

static void scan_unsent_box(void *user, const char *box)
{
    struct event_delivery_egress *x = user;

    egress_tail_scan(&x->tail, box);
}

struct event_delivery_egress *event_delivery_egress_open(struct event_delivery *o,
                                                         struct control *c)
{
    struct event_delivery_egress *x = new0(sizeof *x);

    x->event_delivery = o;
    x->control = c;
    x->tail = (struct egress_tail_reader){ .kinds = 1u << EGRESS_TAIL_DENIED,
                                           .from_ms = 1, /* everything that is kept */
                                           .sees = sees_every_box,
                                           .begins = find_sent_place,
                                           .more = on_tail_more,
                                           .finished = on_box_log_finished };
    egress_tail_begin(c, &x->tail);
    egress_links_each_unsent(c, scan_unsent_box, x);
    return x;
}

void event_delivery_egress_close(struct event_delivery_egress *x)
{
    if (!x)
        return;
    egress_tail_end(&x->tail);
    loop_timer_stop(&x->backoff);
    parcel_done(&x->parcel);
    free(x);
}
