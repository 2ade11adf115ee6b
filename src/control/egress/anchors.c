/* SPDX-License-Identifier: Apache-2.0 */
#include "control/egress/anchors.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/own.h"
#include "control/egress/egress_link_internal.h"
#include "control/plane/plane.h"
#include "domain/model/event.h"
#include "lib/crypto/encode.h"

#define EVERY_NS (30 * NS_PER_S)
#define SOON_NS  NS_PER_S

enum { LINES_MAX = 64, LINE_TEXT = 160, CLOSED_MAX = 4096 };

/* The last line of an egress link that was freed. */
struct closed_line {
    struct link link;
    struct egress_head_record line;
};

/* Lines that are recorded together. */
struct anchoring {
    struct control *control;
    struct store_txn txn;
    struct event_record event;
    struct egress_head_record lines[LINES_MAX];
    size_t n;
    char detail[LINES_MAX * LINE_TEXT + 64];
};

void anchors_write(const struct egress_head_record *lines, size_t n, char *ret, size_t cap)
{
    size_t at = (size_t)snprintf(ret, cap, "{\"" LEDGER_ANCHORS "\":[");

    for (size_t i = 0; i < n && at < cap; i++) {
        char hex[CRYPTO_SHA256_HEX];

        crypto_hex_sha256(lines[i].digest, hex);
        at += (size_t)snprintf(
            ret + at, cap - at, "%s{\"sandbox\":\"%s\",\"seq\":%llu,\"digest\":\"%s\"}",
            i ? "," : "", lines[i].sandbox, (unsigned long long)lines[i].seq, hex);
    }
    if (at < cap)
        snprintf(ret + at, cap - at, "]}");
}

static void on_anchors_recorded(struct store_txn *t, int r, const struct err *e)
{
    struct anchoring *x = container_of(t, struct anchoring, txn);
    struct control *c = x->control;

    if (r < 0)
        LOG(WARN, "audit.anchor_failed", LOG_S("error", e->msg));
    for (size_t i = 0; r >= 0 && i < x->n; i++) {
        struct egress_link *o = egress_link_find(c, x->lines[i].sandbox);

        if (o && o->anchored < x->lines[i].seq)
            o->anchored = x->lines[i].seq;
    }
    if (r >= 0)
        control_publish_first(c, t, &x->event);
    c->changes--;
    free(x);
}

static void record_anchors(struct anchoring *x)
{
    struct control *c = x->control;
    struct event_record *v = &x->event;

    anchors_write(x->lines, x->n, x->detail, sizeof x->detail);
    event_fill(v, &ACTOR_DAEMON, "", "audit.anchored", "");
    v->detail = str_from(x->detail);
    snprintf(v->reason, sizeof v->reason, "egress logs of %zu sandbox%s", x->n,
             x->n == 1 ? "" : "es");
    c->changes++;
    store_txn_begin(&x->txn, c->store);
    for (size_t i = 0; i < x->n; i++)
        store_put_egress_head(&x->txn, &x->lines[i]);
    store_add_event(&x->txn, v);
    store_commit(&x->txn, on_anchors_recorded);
}

struct anchor_gathering {
    struct control *control;
    struct anchoring *now; /* NULL: nothing yet */
};

static void gather_line(struct anchor_gathering *g, const struct egress_head_record *line)
{
    struct anchoring *x = g->now;

    if (!control_has_record(g->control, line->sandbox)) /* which its egress head needs */
        return;
    if (!x) {
        x = g->now = new0(sizeof *x);
        x->control = g->control;
    }
    x->lines[x->n++] = *line;
    if (x->n == LINES_MAX)
        record_anchors(take_ptr(g->now));
}

static void gather_egress_link(struct map_entry *v, void *user)
{
    const struct egress_link *o = container_of(v, struct egress_link, entry);
    struct egress_head_record line = { .time_ns = clock_wall() };

    if (o->line.seq <= o->anchored)
        return;
    egress_link_fill_head(o, &line);
    gather_line(user, &line);
}

static void start_anchor_tick(struct control *c, int64_t ns);

static void on_anchor_tick(struct loop_timer *t)
{
    struct control *c = container_of(t, struct anchors, tick)->control;
    struct anchor_gathering g = { .control = c };

    for (struct link *m; (m = list_take(&c->anchors->closed));) {
        struct closed_line *x = container_of(m, struct closed_line, link);

        gather_line(&g, &x->line);
        free(x);
    }
    c->anchors->n_closed = 0;
    map_each(&c->egress_links->by_box, gather_egress_link, &g);
    if (g.now)
        record_anchors(g.now);
    start_anchor_tick(c, EVERY_NS);
}

static void start_anchor_tick(struct control *c, int64_t ns)
{
    c->anchors->due = clock_mono() + ns;
    loop_timer_start(c->loop, &c->anchors->tick, c->anchors->due, on_anchor_tick, NULL);
}

void anchors_open(struct control *c)
{
    start_anchor_tick(c, SOON_NS); /* lines of earlier daemon runs */
}

void anchors_close(struct control *c)
{
    loop_timer_stop(&c->anchors->tick);
    for (struct link *m; (m = list_take(&c->anchors->closed));)
        free(container_of(m, struct closed_line, link));
}

void anchors_schedule_soon(struct control *c)
{
    if (!loop_timer_started(&c->anchors->tick) || c->anchors->due <= clock_mono() + SOON_NS)
        return;
    loop_timer_stop(&c->anchors->tick);
    start_anchor_tick(c, SOON_NS);
}

/* With very many at once, the rest is anchored with the ends of their sandboxes, or later lines. */
void anchors_note(const struct egress_link *o)
{
    struct anchors *a = o->control->anchors;
    struct closed_line *x;

    if (o->line.seq <= o->anchored || a->n_closed >= CLOSED_MAX)
        return;
    x = new0(sizeof *x);
    x->line.time_ns = clock_wall();
    egress_link_fill_head(o, &x->line);
    list_append(&a->closed, &x->link);
    a->n_closed++;
}
