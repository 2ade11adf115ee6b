/* Denials of egress to the hub: one at a time, box by box in turns, each until it is taken. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/outbox_inside.h"

struct outbox_egress {
    struct outbox *outbox;
    struct control *control;
    struct feed_reader feed;
    struct parcel parcel;
    struct loop_timer rest;
    unsigned failures;
    bool busy; /* the parcel's denial is not taken yet */
    char box[ID_MAX];
    struct feed_place end; /* behind the denial */
};

static void send_next(struct outbox_egress *x);
static void on_answer(struct fetch_request *q, const struct fetch_answer *a);

static void send_again(struct loop_timer *t);

static void take_rest(struct outbox_egress *x, int64_t at_least_ns)
{
    int64_t ns = outbox_rest_ns(x->failures++, at_least_ns);

    loop_timer_start(x->control->loop, &x->rest, clock_mono() + ns, send_again, NULL);
}

static void failed(struct outbox_egress *x, const struct err *e)
{
    if (!x->failures)
        LOG(WARN, "hub.failed", LOG_S("lane", x->box), LOG_S("error", e->msg));
    take_rest(x, 0);
}

static void send_parcel(struct outbox_egress *x)
{
    struct err e;

    if (parcel_send(x->outbox, &x->parcel, on_answer, &e) < 0)
        failed(x, &e);
}

static void send_again(struct loop_timer *t)
{
    send_parcel(container_of(t, struct outbox_egress, rest));
}

static void not_taken(struct outbox_egress *x, const struct fetch_answer *a)
{
    bool unreachable = a->err.code != ERR_OK;

    if (unreachable)
        outbox_missed(x->outbox, a);
    else if (!x->failures)
        LOG(WARN, "hub.refused", LOG_S("lane", x->box), LOG_I("status", a->status));
    take_rest(x, unreachable ? 0 : outbox_retry_after(a));
}

static void on_answer(struct fetch_request *q, const struct fetch_answer *a)
{
    struct outbox_egress *x = container_of(q, struct outbox_egress, parcel.request);

    if (a->err.code == ERR_OK)
        outbox_reached(x->outbox);
    if (!parcel_taken(a)) {
        not_taken(x, a);
        return;
    }
    x->failures = 0;
    x->busy = false;
    outlet_log_note_sent(x->control, x->box, &x->end);
    send_next(x);
}

/* The same line has the same id, whenever it is sent. */
static int pack(struct outbox_egress *x, const struct feed_line *l, struct err *e)
{
    struct envelope v = { .type = feed_types[l->kind],
                          .subject = x->box,
                          .time_ns = l->time_ms * NS_PER_MS };
    struct json_writer w;
    char id[ID_MAX + 48];

    snprintf(x->box, sizeof x->box, "%s", l->box);
    x->end = l->end;
    snprintf(id, sizeof id, "%s-%lld-%lld", x->box, (long long)x->end.file, (long long)x->end.at);
    v.id = id;
    parcel_begin(x->outbox, &x->parcel, &v, &w);
    feed_write(&w, l);
    return parcel_end(&w, e);
}

static void send_next(struct outbox_egress *x)
{
    struct feed_line l;
    struct err e;

    while (!x->busy && feed_next(&x->feed, &l) > 0) {
        if (pack(x, &l, &e) < 0) { /* no line is as long */
            LOG(ERROR, "hub.failed", LOG_S("lane", x->box), LOG_S("error", e.msg));
            continue;
        }
        x->busy = true;
        send_parcel(x);
    }
}

static void on_more(struct feed_reader *r)
{
    send_next(container_of(r, struct outbox_egress, feed));
}

static bool sees(struct feed_reader *r, const char *box)
{
    (void)r;
    (void)box;
    return true;
}

static bool begins(struct feed_reader *r, const char *box, struct feed_place *ret)
{
    return outlet_log_sent(container_of(r, struct outbox_egress, feed)->control, box, ret);
}

static void over(struct feed_reader *r, const char *box, const struct feed_place *at)
{
    outlet_log_note_sent(container_of(r, struct outbox_egress, feed)->control, box, at);
}

static void look(void *user, const char *box)
{
    struct outbox_egress *x = user;

    feed_look(&x->feed, box);
}

struct outbox_egress *outbox_egress_open(struct outbox *o, struct control *c)
{
    struct outbox_egress *x = calloc(1, sizeof *x);

    if (!x)
        abort();
    x->outbox = o;
    x->control = c;
    x->feed = (struct feed_reader){ .kinds = 1u << FEED_DENIED,
                                    .from_ms = 1, /* all that is there */
                                    .sees = sees,
                                    .begins = begins,
                                    .more = on_more,
                                    .over = over };
    feed_begin(c, &x->feed);
    outlets_each_unsent(c, look, x);
    return x;
}

void outbox_egress_close(struct outbox_egress *x)
{
    if (!x)
        return;
    feed_end(&x->feed);
    loop_timer_stop(&x->rest);
    parcel_done(&x->parcel);
    free(x);
}
