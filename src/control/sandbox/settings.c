/* What is set of a sandbox that is there: its labels, and what comes of it when nobody uses it. */
#include <stdlib.h>

#include "control/sandbox.h"

enum { LABELS_ARENA_MAX = 64 << 10 };

struct setting {
    struct sandbox_op *op;
    struct sandbox_rest rest;
    const struct json_map *labels;
    struct json_map kept; /* the caller's */
    struct json_map next; /* on the sandbox's arena that is not on disk */
};

static int check_there(const struct change *ch, struct err *e)
{
    const struct sandbox *s = ch->sandbox;

    if (!s->destroying &&
        (sandbox_state_usable(s->record.state) || s->record.state == SANDBOX_PAUSED))
        return 0;
    return err_set(e, ERR_CONFLICT, "sandbox %s is %s", s->record.id,
                   sandbox_state_names[s->record.state]);
}

static void submit(struct sandbox *s, struct change *ch, struct setting *t)
{
    t->op->sandbox = sandbox_ref(s);
    ch->check = ch->check ? ch->check : check_there;
    ch->user = t;
    change_submit(ch);
}

static struct setting *setting_new(struct sandbox_op *op)
{
    struct setting *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    t->op = op;
    return t;
}

/* --- rest --- */

struct sandbox_rest sandbox_rest(const struct sandbox *s)
{
    return (struct sandbox_rest){ .idle_ns = s->record.idle_ns,
                                  .stops = s->facts.has_rest && s->facts.rest.stops,
                                  .keep_ns = s->facts.has_rest ? s->facts.rest.keep_ns : 0 };
}

/* The profile's time is the longest. */
static int64_t idle_within(const struct sandbox *s, int64_t asked)
{
    int64_t most = s->profile ? s->profile->ttl.idle_reap : 0;

    return !asked || (most && most < asked) ? most : asked;
}

static void edit_rest(struct change *ch, struct sandbox_record *next)
{
    const struct setting *t = ch->user;
    struct sandbox *s = ch->sandbox;

    next->idle_ns = idle_within(s, t->rest.idle_ns);
    s->facts.has_rest = true;
    s->facts.rest.stops = t->rest.stops;
    s->facts.rest.keep_ns = t->rest.keep_ns;
    sandbox_put_facts(s, next);
}

static void told_rest(struct change *ch, int r, const struct err *e)
{
    struct setting *t = ch->user;
    struct sandbox *s = ch->sandbox;

    if (r >= 0 && !s->destroying && !s->after_teardown && !s->expiring)
        ttl_start(s); /* who sets it uses it */
    sandbox_op_tell(t->op, r, e);
    free(t);
}

void sandbox_set_rest(struct sandbox *s, const struct actor *who, const struct sandbox_rest *rest,
                      struct sandbox_op *op)
{
    struct change *ch = change_new(s, who, "set-rest");
    struct setting *t = setting_new(op);

    t->rest = *rest;
    ch->type = "sandbox.rest_set";
    ch->edit = edit_rest;
    ch->done = told_rest;
    submit(s, ch, t);
}

/* --- labels --- */

static bool has_label(const struct json_map *all, const char *key)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->p[i].key, key) == 0)
            return true;
    return false;
}

static bool add_label(struct arena *a, struct json_pair *to, const struct json_pair *from)
{
    to->key = arena_dup(a, str_from(from->key));
    to->value = arena_dup(a, str_from(from->value));
    return to->key && to->value;
}

/* On the arena that nothing on disk points to. */
static int check_labels(const struct change *ch, struct err *e)
{
    struct setting *t = ch->user;
    struct sandbox *s = ch->sandbox;
    struct arena *a = &s->labels[s->labels_at ^ 1];
    struct json_pair *all;
    size_t n = 0;
    bool fits;
    int r = check_there(ch, e);

    if (r < 0)
        return r;
    arena_done(a);
    arena_init(a, LABELS_ARENA_MAX);
    all = arena_array(a, t->kept.n + s->record.labels.n + t->labels->n + 1, sizeof *all);
    fits = all;
    for (size_t i = 0; fits && i < t->kept.n; i++)
        fits = add_label(a, &all[n++], &t->kept.p[i]);
    for (size_t i = 0; fits && i < s->record.labels.n; i++)
        if (label_is_reserved(s->record.labels.p[i].key) &&
            !has_label(&t->kept, s->record.labels.p[i].key))
            fits = add_label(a, &all[n++], &s->record.labels.p[i]);
    for (size_t i = 0; fits && i < t->labels->n; i++)
        if (!has_label(&t->kept, t->labels->p[i].key) && !label_is_reserved(t->labels->p[i].key))
            fits = add_label(a, &all[n++], &t->labels->p[i]);
    if (!fits || n > REQUEST_LABELS_MAX)
        return err_set(e, ERR_INVALID, "labels: more than %d, or too long", REQUEST_LABELS_MAX);
    t->next = (struct json_map){ all, n };
    return 0;
}

static void edit_labels(struct change *ch, struct sandbox_record *next)
{
    const struct setting *t = ch->user;

    next->labels = t->next;
}

static void told_labels(struct change *ch, int r, const struct err *e)
{
    struct setting *t = ch->user;

    if (r >= 0)
        ch->sandbox->labels_at ^= 1;
    sandbox_op_tell(t->op, r, e);
    free(t);
}

void sandbox_set_labels(struct sandbox *s, const struct caller *who, const struct json_map *labels,
                        struct sandbox_op *op)
{
    struct change *ch = change_new(s, &who->actor, "set-labels");
    struct setting *t = setting_new(op);

    t->labels = labels;
    t->kept = who->labels;
    ch->type = "sandbox.labels_set";
    ch->check = check_labels;
    ch->edit = edit_labels;
    ch->done = told_labels;
    submit(s, ch, t);
}
