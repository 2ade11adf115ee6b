/* SPDX-License-Identifier: Apache-2.0 */
/* Finds and removes the background processes of sessions, terminals and contexts by their tags. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "edge/daytona/internal.h"
#include "base/own.h"
#include "edge/daytona/sessions.h"

const char *daytona_tag_name(const struct process_view *v, const char *kind)
{
    size_t n = strlen(kind);

    return v->request->tag && strncmp(v->request->tag, kind, n) == 0 ? v->request->tag + n : NULL;
}

struct tag_search {
    const char *kind;
    struct str name; /* p == NULL: only count */
    struct process *found;
    size_t n;
};

static void match_tagged_process(void *user, struct process *p)
{
    struct tag_search *s = user;
    struct process_view v;
    const char *name;

    process_view(p, &v);
    name = daytona_tag_name(&v, s->kind);
    s->n += name && !v.ended;
    if (name && s->name.p && str_eq(str_from(name), s->name))
        s->found = p;
}

struct process *daytona_find_process(struct sandbox *s, const char *kind, struct str name)
{
    struct tag_search k = { .kind = kind, .name = name };

    process_each(s, match_tagged_process, &k);
    return k.found ? process_ref(k.found) : NULL;
}

size_t daytona_count_processes(struct sandbox *s, const char *kind)
{
    struct tag_search k = { .kind = kind };

    process_each(s, match_tagged_process, &k);
    return k.n;
}

bool daytona_name_good(struct call *c, struct str name)
{
    if (name.n && name.n <= DAYTONA_TAG_MAX && !memchr(name.p, 0, name.n))
        return true;
    call_fail_with(c, 400, "BAD_REQUEST", "the name must have 1 to 64 bytes");
    return false;
}

/* --- removing a process --- */

struct process_removal {
    struct call *call;
    struct process_op op;
    struct watcher watcher;
};

static void on_removal_end(struct call *c)
{
    struct process_removal *r = c->state;

    watcher_stop(&r->watcher);
    process_unref(r->op.process);
    free(r);
}

static void on_tagged_process_forgotten(struct process_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct process_removal, op)->call;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer_empty(c);
    call_unref(c);
}

static bool ignore_removed_output(struct watcher *w, int channel, struct str data)
{
    return true;
}

static void on_removed_process_ended(struct watcher *w, const struct backend_end *end)
{
    struct process_removal *r = container_of(w, struct process_removal, watcher);

    process_forget(&r->op, &r->call->caller.actor);
}

/* Cannot happen: ignore_removed_output() accepts everything. */
static void on_removal_behind(struct watcher *w)
{
    struct process_removal *r = container_of(w, struct process_removal, watcher);

    call_fail_with(r->call, 500, "", "watching the process failed");
    call_unref(r->call);
}

static const struct watcher_events events = { .output = ignore_removed_output,
                                              .ended = on_removed_process_ended,
                                              .fell_behind = on_removal_behind };

void daytona_remove_process(struct call *c, struct process *p)
{
    struct process_removal *r = new0(sizeof *r);

    r->call = call_ref(c);
    r->op.process = p;
    r->op.done = on_tagged_process_forgotten;
    r->watcher.events = &events;
    c->state = r;
    c->on_end = on_removal_end;
    process_watch(p, &r->watcher, true);
    (void)process_signal(p, SIGKILL, BACKEND_SCOPE_TREE,
                         NULL); /* its end is reported by on_removed_process_ended() */
}
