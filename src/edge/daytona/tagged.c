/* Background processes that stand for something of Daytona's: found by their tags. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/daytona/inside.h"
#include "api/daytona/sessions.h"

const char *daytona_tag(const struct process_view *v, const char *kind)
{
    size_t n = strlen(kind);

    return v->request->tag && strncmp(v->request->tag, kind, n) == 0 ? v->request->tag + n : NULL;
}

struct search {
    const char *kind;
    struct str name; /* p == NULL: any that runs */
    struct process *found;
    size_t n;
};

static void look_at(void *user, struct process *p)
{
    struct search *s = user;
    struct process_view v;
    const char *name;

    process_view(p, &v);
    name = daytona_tag(&v, s->kind);
    s->n += name && !v.ended;
    if (name && s->name.p && str_eq(str_from(name), s->name))
        s->found = p;
}

struct process *daytona_find(struct sandbox *s, const char *kind, struct str name)
{
    struct search k = { .kind = kind, .name = name };

    process_each(s, look_at, &k);
    return k.found ? process_ref(k.found) : NULL;
}

size_t daytona_count(struct sandbox *s, const char *kind)
{
    struct search k = { .kind = kind };

    process_each(s, look_at, &k);
    return k.n;
}

bool daytona_name_good(struct call *c, struct str name)
{
    if (name.n && name.n <= DAYTONA_TAG_MAX && !memchr(name.p, 0, name.n))
        return true;
    call_fail_with(c, 400, "BAD_REQUEST", "its name must have 1 to 64 bytes");
    return false;
}

/* --- the end of one --- */

struct removal {
    struct call *call;
    struct process_op op;
    struct watcher watcher;
};

static void removal_end(struct call *c)
{
    struct removal *r = c->state;

    watcher_stop(&r->watcher);
    process_unref(r->op.process);
    free(r);
}

static void forgotten(struct process_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct removal, op)->call;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer_empty(c);
    call_unref(c);
}

static bool ignore_output(struct watcher *w, int channel, struct str data)
{
    (void)w;
    (void)channel;
    (void)data;
    return true;
}

static void on_ended(struct watcher *w, const struct ext_end *end)
{
    struct removal *r = container_of(w, struct removal, watcher);

    (void)end;
    process_forget(&r->op, &r->call->caller.actor);
}

static void on_behind(struct watcher *w)
{
    struct removal *r = container_of(w, struct removal, watcher);

    call_fail_with(r->call, 500, "", "it could not be watched"); /* it takes everything at once */
    call_unref(r->call);
}

static const struct watcher_events events = { .output = ignore_output,
                                              .ended = on_ended,
                                              .fell_behind = on_behind };

void daytona_remove(struct call *c, struct process *p)
{
    struct removal *r = calloc(1, sizeof *r);

    if (!r)
        abort();
    r->call = call_ref(c);
    r->op.process = p;
    r->op.done = forgotten;
    r->watcher.events = &events;
    c->state = r;
    c->on_end = removal_end;
    process_watch(p, &r->watcher, true);
    (void)process_signal(p, SIGKILL, EXT_SCOPE_TREE, NULL); /* if it is over, that is told */
}
