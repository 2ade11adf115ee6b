/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "trust/internal.h"

enum { DETAIL_MAX = 16 << 10 };

struct trust_write *trust_write_new(struct trust *t, const char *type, const char *owner,
                                    const struct actor *who, const char *reason)
{
    struct trust_write *w = new0(sizeof *w);

    w->trust = t;
    w->event =
        (struct event_record){ .time_ns = clock_wall(), .from = -1, .to = -1, .actor = *who };
    snprintf(w->event.type, sizeof w->event.type, "%s", type);
    snprintf(w->event.owner, sizeof w->event.owner, "%s", owner);
    snprintf(w->event.reason, sizeof w->event.reason, "%s", reason);
    buf_init(&w->detail, DETAIL_MAX);
    json_writer_init(&w->json, &w->detail, JSON_COMPACT);
    json_begin_object(&w->json);
    store_txn_begin(&w->txn, t->store);
    list_append(&t->writes, &w->link);
    return w;
}

void trust_write_detail(struct trust_write *w, const char *key, const char *value)
{
    json_field_text(&w->json, key, value);
}

static void on_trust_write_committed(struct store_txn *x, int r, const struct err *e)
{
    struct trust_write *w = container_of(x, struct trust_write, txn);

    if (r < 0)
        LOG(ERROR, "trust.write_failed", LOG_S("event", w->event.type), LOG_S("error", e->msg));
    link_leave(&w->link);
    if (w->trust && r >= 0) {
        w->event.seq = x->first_seq;
        control_publish(w->trust->control, &w->event);
    }
    if (w->trust && w->done)
        w->done(w->user, r, e);
    buf_done(&w->detail);
    free(w);
}

void trust_write_commit(struct trust_write *w, trust_write_fn *done, void *user)
{
    w->done = done;
    w->user = user;
    json_end_object(&w->json);
    if (json_writer_finish(&w->json, NULL) >= 0)
        w->event.detail = buf_str(&w->detail);
    store_add_event(&w->txn, &w->event);
    store_commit(&w->txn, on_trust_write_committed);
}

void trust_writes_close(struct trust *t)
{
    struct err e;

    (void)err_set(&e, ERR_BUSY, "the daemon is stopping");
    for (struct link *m; (m = list_take(&t->writes));) {
        struct trust_write *w = container_of(m, struct trust_write, link);
        trust_write_fn *done = take_ptr(w->done);

        w->trust = NULL;
        if (done)
            done(w->user, -(int)ERR_BUSY, &e);
    }
}
