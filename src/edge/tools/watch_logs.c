/* SPDX-License-Identifier: Apache-2.0 */
/* Watches the output of background processes: notifies the client, which then reads the logs. */
#include <stdio.h>
#include <stdlib.h>

#include "edge/tools/watch.h"
#include "base/own.h"
#include "control/process/processes.h"

struct log_source {
    struct mcp_source source;
    struct mcp_client *client;
    struct loop *loop;
    struct list tails; /* struct tail: of running processes */
    struct list unwatched;
    struct loop_later look, later;
    bool stands; /* processes found from now on are new */
    char sandbox[ID_MAX];
};

struct tail {
    struct watcher watcher;
    struct log_source *source;
    struct link link;
    uint32_t proc;
};

static bool on_tail_output(struct watcher *w, int channel, struct str data)
{
    mcp_source_changed(&container_of(w, struct tail, watcher)->source->source);
    return true;
}

static void on_tail_over(struct watcher *w)
{
    struct tail *t = container_of(w, struct tail, watcher);

    link_leave(&t->link);
    free(t);
}

static void on_tail_process_ended(struct watcher *w, const struct backend_end *end)
{
    on_tail_over(w);
}

static const struct watcher_events events = { .output = on_tail_output,
                                              .ended = on_tail_process_ended,
                                              .fell_behind = on_tail_over };

static void follow_process(void *user, struct process *p)
{
    struct log_source *x = user;
    struct process_view v;
    struct tail *t;

    process_view(p, &v);
    if (v.ended)
        return;
    LIST_EACH (const struct tail, followed, &x->tails, link) {
        if (followed->proc == v.proc)
            return;
    }
    t = new0(sizeof *t);
    t->source = x;
    t->proc = v.proc;
    t->watcher.events = &events;
    list_append(&x->tails, &t->link);
    process_watch(p, &t->watcher, !x->stands);
}

static void on_scan_later(struct loop_later *l)
{
    struct log_source *x = container_of(l, struct log_source, look);
    struct sandbox *box;

    if (!control_find_now(x->client->control, &x->client->caller, str_from(x->sandbox), &box))
        return;
    process_each(box, follow_process, x);
    sandbox_unref(box);
}

/* A process was started or has ended. Scans later, because the caller is changing the list. */
static void on_processes_changed(struct mcp_source *s)
{
    struct log_source *x = container_of(s, struct log_source, source);

    (void)loop_later(x->loop, &x->look, on_scan_later, NULL); /* one scan covers several changes */
}

static void on_log_source_free(struct loop_later *l)
{
    struct log_source *x = container_of(l, struct log_source, later);

    for (struct link *t; (t = list_take(&x->unwatched));)
        free(container_of(t, struct tail, link));
    free(x);
}

/* May be called from inside a watcher's callback, so the watchers are freed later. */
static void on_log_source_end(struct mcp_source *s)
{
    struct log_source *x = container_of(s, struct log_source, source);

    loop_later_stop(&x->look);
    for (struct link *l; (l = list_take(&x->tails));) {
        watcher_stop(&container_of(l, struct tail, link)->watcher);
        list_append(&x->unwatched, l);
    }
    (void)loop_later(x->loop, &x->later, on_log_source_free, NULL);
}

void mcp_watch_logs(struct mcp_request *r, const char *sandbox)
{
    struct log_source *x = new0(sizeof *x);

    x->source.end = on_log_source_end;
    x->source.poke = on_processes_changed;
    x->client = mcp_client_of(r);
    x->loop = r->session->loop;
    snprintf(x->sandbox, sizeof x->sandbox, "%s", sandbox);
    on_scan_later(&x->look);
    x->stands = true;
    mcp_watched_by(r, &x->source);
}
