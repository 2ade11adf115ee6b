/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/background.h"

#include <signal.h>
#include <stdio.h>

#include "edge/core/guard.h"
#include "edge/core/operation.h"
#include "base/own.h"

static void on_background_client_gone(struct call *c)
{
    struct background *b = c->state;

    watcher_stop(&b->watcher);
}

void *background_new(struct call *c, size_t size, size_t input_max, void (*on_end)(void *state))
{
    struct background *b = call_state(c, size, on_end ? on_end : background_done);

    b->call = c;
    buf_init(&b->input, input_max);
    c->on_gone = on_background_client_gone;
    return b;
}

void background_done(void *state)
{
    struct background *b = state;

    watcher_stop(&b->watcher);
    process_unref(b->process);
    buf_done(&b->input);
}

/* --- start, watch, write --- */

static void on_background_started(struct process_op *op, int r, const struct err *e)
{
    struct background *b = container_of(op, struct background, op);
    struct call *c = b->call;

    if (r >= 0)
        b->process = take_ptr(op->process);
    if (c->x)
        b->started_(b, r, e);
    call_unref(c);
}

void background_start(struct background *b, const struct process_request *q,
                      background_started_fn *started)
{
    struct call *c = call_ref(b->call);

    b->request = *q;
    b->started_ = started;
    b->op = (struct process_op){ .request = &b->request,
                                 .programs = guard_starts_programs(c),
                                 .client = call_client(c),
                                 .done = on_background_started };
    process_start(c->sandbox, &c->caller.actor, &b->op);
}

void background_watch(struct background *b, const struct watcher_events *events, bool live_only)
{
    b->watcher.events = events;
    process_watch(b->process, &b->watcher, live_only);
}

void background_drained(struct http_exchange *x)
{
    struct call *c = http_state(x);
    struct background *b = c->state;

    watcher_resume(&b->watcher);
}

int background_send_input(struct background *b, struct err *e)
{
    while (b->input.n) {
        ssize_t n = process_stdin(b->process, buf_str(&b->input), e);

        if (n <= 0)
            return (int)n;
        buf_drop(&b->input, (size_t)n);
    }
    return 1;
}

/* --- removal --- */

void background_kill(struct background *b, const struct watcher_events *events)
{
    background_watch(b, events, true);
    (void)process_signal(b->process, SIGKILL, BACKEND_SCOPE_TREE, NULL); /* its end is reported */
}

static void on_background_forgotten(struct process_op *op, int r, const struct err *e)
{
    call_settle(container_of(op, struct background, op)->call, r, e);
}

static struct background *new_removal(struct call *c, struct process *p)
{
    struct background *b = background_new(c, sizeof *b, 0, NULL);

    b->process = p;
    b->op = (struct process_op){ .process = p, .done = on_background_forgotten };
    c->on_gone = NULL;
    call_ref(c);
    return b;
}

static void on_removed_process_ended(struct watcher *w, const struct backend_end *end)
{
    struct background *b = container_of(w, struct background, watcher);

    process_forget(&b->op, &b->call->caller.actor);
}

void background_remove(struct call *c, struct process *p)
{
    static const struct watcher_events events = { .ended = on_removed_process_ended };

    background_kill(new_removal(c, p), &events);
}

void background_forget(struct call *c, struct process *p)
{
    process_forget(&new_removal(c, p)->op, &c->caller.actor);
}

/* --- tags --- */

const char *background_tag(struct call *c, const char *kind, const char *name)
{
    size_t n = strlen(kind) + strlen(name) + 1;
    char *tag = call_alloc(c, 1, n);

    snprintf(tag, n, "%s%s", kind, name);
    return tag;
}

const char *background_name(const struct process_view *v, const char *kind)
{
    size_t n = strlen(kind);

    return v->request->tag && strncmp(v->request->tag, kind, n) == 0 ? v->request->tag + n : NULL;
}

struct tag_search {
    const char *kind;
    struct str name; /* p == NULL: only count */
    struct process *found;
    size_t running;
};

static void match_tagged_process(void *user, struct process *p)
{
    struct tag_search *s = user;
    struct process_view v;
    const char *name;

    process_view(p, &v);
    name = background_name(&v, s->kind);
    s->running += name && !v.ended;
    if (name && s->name.p && str_eq(str_from(name), s->name))
        s->found = p;
}

struct process *background_find(struct sandbox *s, const char *kind, struct str name)
{
    struct tag_search k = { .kind = kind, .name = name };

    process_each(s, match_tagged_process, &k);
    return k.found ? process_ref(k.found) : NULL;
}

size_t background_count(struct sandbox *s, const char *kind)
{
    struct tag_search k = { .kind = kind };

    process_each(s, match_tagged_process, &k);
    return k.running;
}
