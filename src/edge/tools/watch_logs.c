/* What background processes write: whoever watches hears that there is more, and reads the logs. */
#include <stdio.h>
#include <stdlib.h>

#include "api/mcp_watch.h"
#include "control/processes.h"

struct log_source {
    struct mcp_source source;
    struct mcp_client *client;
    struct loop *loop;
    struct list tails; /* struct tail: of the processes that run */
    struct list unwatched;
    struct loop_later look, later;
    bool stands; /* processes that are found from now on are new */
    char sandbox[ID_MAX];
};

struct tail {
    struct watcher watcher;
    struct log_source *source;
    struct link link;
    uint32_t proc;
};

static bool output(struct watcher *w, int channel, struct str data)
{
    (void)channel;
    (void)data;
    mcp_source_changed(&container_of(w, struct tail, watcher)->source->source);
    return true;
}

static void tail_over(struct watcher *w)
{
    struct tail *t = container_of(w, struct tail, watcher);

    link_leave(&t->link);
    free(t);
}

static void ended(struct watcher *w, const struct ext_end *end)
{
    (void)end;
    tail_over(w);
}

static const struct watcher_events events = { .output = output,
                                              .ended = ended,
                                              .fell_behind = tail_over };

static bool is_followed(struct log_source *x, uint32_t proc)
{
    for (struct link *l = list_first(&x->tails); l; l = list_after(&x->tails, l))
        if (container_of(l, struct tail, link)->proc == proc)
            return true;
    return false;
}

static void follow(void *user, struct process *p)
{
    struct log_source *x = user;
    struct process_view v;
    struct tail *t;

    process_view(p, &v);
    if (v.ended || is_followed(x, v.proc))
        return;
    t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->source = x;
    t->proc = v.proc;
    t->watcher.events = &events;
    list_append(&x->tails, &t->link);
    process_watch(p, &t->watcher, !x->stands);
}

static void look(struct log_source *x)
{
    struct sandbox *box;

    if (!control_find_now(x->client->control, &x->client->caller, str_from(x->sandbox), &box))
        return;
    process_each(box, follow, x);
    sandbox_unref(box);
}

static void look_later(struct loop_later *l)
{
    look(container_of(l, struct log_source, look));
}

/* A process was started or has ended; the one who tells is in the middle of it. */
static void poke(struct mcp_source *s)
{
    struct log_source *x = container_of(s, struct log_source, source);

    (void)loop_later(x->loop, &x->look, look_later, NULL); /* once is enough */
}

static void free_later(struct loop_later *l)
{
    struct log_source *x = container_of(l, struct log_source, later);

    for (struct link *t; (t = list_take(&x->unwatched));)
        free(container_of(t, struct tail, link));
    free(x);
}

/* Perhaps by a process that is just telling: its watcher must not be freed now. */
static void source_ended(struct mcp_source *s)
{
    struct log_source *x = container_of(s, struct log_source, source);

    loop_later_stop(&x->look);
    for (struct link *l; (l = list_take(&x->tails));) {
        watcher_stop(&container_of(l, struct tail, link)->watcher);
        list_append(&x->unwatched, l);
    }
    (void)loop_later(x->loop, &x->later, free_later, NULL);
}

void mcp_watch_logs(struct mcp_request *r, const char *sandbox)
{
    struct log_source *x = calloc(1, sizeof *x);

    if (!x)
        abort();
    x->source.end = source_ended;
    x->source.poke = poke;
    x->client = mcp_client_of(r);
    x->loop = r->session->loop;
    snprintf(x->sandbox, sizeof x->sandbox, "%s", sandbox);
    look(x);
    x->stands = true;
    mcp_watched_by(r, &x->source);
}
