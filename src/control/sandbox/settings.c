/* SPDX-License-Identifier: Apache-2.0 */
/* Settings that can be changed during a sandbox's lifetime: its labels, and what happens when it is
 * idle. */
#include <stdlib.h>

#include "base/own.h"

#include "control/sandbox/sandbox.h"

enum { LABELS_ARENA_MAX = 64 << 10 };

struct sandbox_setting {
    struct sandbox_op *op;
    struct sandbox_rest rest;
    const struct json_map *labels;
    struct json_map kept; /* labels of the caller, which stay */
    struct json_map next; /* on the sandbox's labels arena that is not on disk */
};

static int check_not_ended(const struct change *ch, struct err *e)
{
    const struct sandbox *s = ch->sandbox;

    if (!s->destroying &&
        (sandbox_state_usable(s->record.state) || s->record.state == SANDBOX_PAUSED))
        return 0;
    return err_set(e, ERR_CONFLICT, "sandbox %s is %s", s->record.id,
                   sandbox_state_names[s->record.state]);
}

static void submit_setting(struct sandbox *s, struct change *ch, struct sandbox_setting *t)
{
    t->op->sandbox = sandbox_ref(s);
    ch->check = ch->check ? ch->check : check_not_ended;
    ch->user = t;
    change_submit(ch);
}

static struct sandbox_setting *setting_new(struct sandbox_op *op)
{
    struct sandbox_setting *t = new0(sizeof *t);

    t->op = op;
    return t;
}

/* --- rest --- */

struct sandbox_rest sandbox_rest(const struct sandbox *s)
{
    return (struct sandbox_rest){ .idle_ns = s->record.idle_ns,
                                  .stops = s->detail.has_rest && s->detail.rest.stops,
                                  .keep_ns = s->detail.has_rest ? s->detail.rest.keep_ns : 0 };
}

static void edit_rest(struct change *ch, struct sandbox_record *next)
{
    const struct sandbox_setting *t = ch->user;
    struct sandbox *s = ch->sandbox;
    int64_t most = s->profile ? s->profile->ttl.idle_reap : 0, asked = t->rest.idle_ns;

    next->idle_ns = !asked || (most && most < asked) ? most : asked; /* the profile's at most */
    s->detail.has_rest = true;
    s->detail.rest.stops = t->rest.stops;
    s->detail.rest.keep_ns = t->rest.keep_ns;
    sandbox_write_detail(s, next);
}

static void on_rest_recorded(struct change *ch, int r, const struct err *e)
{
    struct sandbox_setting *t = ch->user;
    struct sandbox *s = ch->sandbox;

    if (r >= 0 && !s->destroying && !s->after_teardown && !s->expiring)
        ttl_start(s); /* setting it counts as a use */
    sandbox_op_complete(t->op, r, e);
    free(t);
}

void sandbox_set_rest(struct sandbox *s, const struct actor *who, const struct sandbox_rest *rest,
                      struct sandbox_op *op)
{
    struct change *ch = change_new(s, who, "set-rest");
    struct sandbox_setting *t = setting_new(op);

    t->rest = *rest;
    ch->type = "sandbox.rest_set";
    ch->edit = edit_rest;
    ch->done = on_rest_recorded;
    submit_setting(s, ch, t);
}

/* --- labels --- */

static bool copy_label(struct arena *a, struct json_pair *to, const struct json_pair *from)
{
    to->key = arena_dup(a, str_from(from->key));
    to->value = arena_dup(a, str_from(from->value));
    return to->key && to->value;
}

/* Builds the labels on the arena that the record does not use. */
static int check_new_labels(const struct change *ch, struct err *e)
{
    struct sandbox_setting *t = ch->user;
    struct sandbox *s = ch->sandbox;
    struct arena *a = &s->labels[s->labels_at ^ 1];
    struct json_pair *all;
    size_t n = 0;
    bool fits;
    int r = check_not_ended(ch, e);

    if (r < 0)
        return r;
    arena_done(a);
    arena_init(a, LABELS_ARENA_MAX);
    all = arena_array(a, t->kept.n + s->record.labels.n + t->labels->n + 1, sizeof *all);
    fits = all;
    for (size_t i = 0; fits && i < t->kept.n; i++)
        fits = copy_label(a, &all[n++], &t->kept.p[i]);
    for (size_t i = 0; fits && i < s->record.labels.n; i++)
        if (label_is_reserved(s->record.labels.p[i].key) &&
            !json_map_get(&t->kept, s->record.labels.p[i].key))
            fits = copy_label(a, &all[n++], &s->record.labels.p[i]);
    for (size_t i = 0; fits && i < t->labels->n; i++)
        if (!json_map_get(&t->kept, t->labels->p[i].key) && !label_is_reserved(t->labels->p[i].key))
            fits = copy_label(a, &all[n++], &t->labels->p[i]);
    if (!fits || n > REQUEST_LABELS_MAX)
        return err_set(
            e, ERR_INVALID,
            "labels: %zu with those that cannot change, of at most %d; or they have more "
            "than %d bytes together",
            n, REQUEST_LABELS_MAX, LABELS_ARENA_MAX);
    t->next = (struct json_map){ all, n };
    return 0;
}

static void edit_labels(struct change *ch, struct sandbox_record *next)
{
    const struct sandbox_setting *t = ch->user;

    next->labels = t->next;
}

static void on_labels_recorded(struct change *ch, int r, const struct err *e)
{
    struct sandbox_setting *t = ch->user;

    if (r >= 0)
        ch->sandbox->labels_at ^= 1;
    sandbox_op_complete(t->op, r, e);
    free(t);
}

void sandbox_set_labels(struct sandbox *s, const struct caller *who, const struct json_map *labels,
                        struct sandbox_op *op)
{
    struct change *ch = change_new(s, &who->actor, "set-labels");
    struct sandbox_setting *t = setting_new(op);

    t->labels = labels;
    t->kept = who->labels;
    ch->type = "sandbox.labels_set";
    ch->check = check_new_labels;
    ch->edit = edit_labels;
    ch->done = on_labels_recorded;
    submit_setting(s, ch, t);
}
