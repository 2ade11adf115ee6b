/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a sandbox by its id, its name or, if the caller allows it, a prefix of its id. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/units.h"
#include "control/sandbox/sandbox.h"

bool control_find_now(struct control *c, const struct caller *who, struct str id,
                      struct sandbox **ret)
{
    char text[ID_MAX];
    struct map_entry *v =
        id_read("sbx_", id, text) ? map_find(&c->sandboxes, str_from(text)) : NULL;
    struct sandbox *s = v ? container_of(v, struct sandbox, entry) : NULL;

    if (!s || !s->stored || !sandbox_visible(who, &s->record))
        return false;
    *ret = sandbox_ref(s);
    return true;
}

bool control_find_named(struct control *c, const struct caller *who, struct str name,
                        struct sandbox **ret)
{
    struct sandbox *s = names_find(c, who->owner, name);

    if (!s || !s->stored || !sandbox_visible(who, &s->record))
        return false;
    *ret = sandbox_ref(s);
    return true;
}

static void finish_find(struct find_op *op, int r, const struct err *e)
{
    op->control_ = NULL;
    op->done(op, r, e);
}

static void fail_not_found(struct find_op *op)
{
    struct err e;

    finish_find(op, err_set(&e, ERR_NOT_FOUND, "there is no sandbox %s", op->shown_), &e);
}

/* Two matches; live sandboxes come first. */
static bool is_ambiguous(const struct store_query *q)
{
    return q->n > 1 && (q->sandboxes[0].state == SANDBOX_DESTROYED) ==
                           (q->sandboxes[1].state == SANDBOX_DESTROYED);
}

static void on_find_answered(struct store_query *q, int r, const struct err *e)
{
    struct find_op *op = container_of(q, struct find_op, query_);
    struct sandbox_record *found = NULL;
    struct err many;

    if (r < 0) {
        finish_find(op, r, e);
        return;
    }
    if (q->n && sandbox_visible(op->caller, &q->sandboxes[0]))
        found = &q->sandboxes[0];
    if (!found) {
        fail_not_found(op);
    } else if (is_ambiguous(q)) {
        r = err_set(&many, ERR_CONFLICT, "%s is a prefix of several ids; use a longer one",
                    op->text_);
        finish_find(op, r, &many);
    } else {
        if (!control_find_now(op->control_, op->caller, str_from(found->id), &op->sandbox))
            op->record = found;
        finish_find(op, 0, NULL);
    }
}

static void on_find_later(struct loop_later *l)
{
    struct find_op *op = container_of(l, struct find_op, later_);

    if (op->sandbox)
        finish_find(op, 0, NULL);
    else if (op->busy_.code)
        finish_find(op, -(int)op->busy_.code, &op->busy_);
    else
        fail_not_found(op);
}

static bool is_id_start(struct str id)
{
    for (size_t i = 0; i < id.n; i++)
        if (!((id.p[i] >= 'a' && id.p[i] <= 'z') || (id.p[i] >= '0' && id.p[i] <= '9') ||
              id.p[i] == '_'))
            return false;
    return id.n > 0;
}

/* An id in any form, or its start: "sbx_4k7…" or just "4k7…". */
static bool set_find_text(struct find_op *op)
{
    bool prefixed = str_starts(op->id, STR("sbx_"));

    op->text_[0] = 0;
    if (!str_copy(op->id, op->shown_, sizeof op->shown_))
        str_copy(STR("like that"), op->shown_, sizeof op->shown_);
    if (id_read("sbx_", op->id, op->text_))
        return true;
    if (!is_id_start(op->id) || op->id.n + (prefixed ? 0 : 4) >= sizeof op->text_)
        return false;
    snprintf(op->text_, sizeof op->text_, "%s" STR_FMT, prefixed ? "" : "sbx_", STR_ARG(op->id));
    return op->may_be_short || id_valid("sbx_", str_from(op->text_)); /* 20 characters alone */
}

static void query_sandbox(struct find_op *op, store_answer_fn *answer)
{
    /* A prefix, and a name in a label, find the caller's own sandboxes only, also for an
     * administrator. */
    op->query_.owner = op->caller->admin && op->query_.kind == STORE_SANDBOX
                           ? STR("")
                           : str_from(op->caller->owner);
    if (store_ask(op->control_->store, &op->query_, answer, &op->busy_) < 0)
        loop_later(op->control_->loop, &op->later_, on_find_later, NULL);
}

static void query_sandbox_id(struct find_op *op)
{
    op->query_ = (struct store_query){
        .kind = id_valid("sbx_", str_from(op->text_)) ? STORE_SANDBOX : STORE_PREFIX,
        .text = str_from(op->text_),
        .labels = op->caller->labels,
        .limit = 2,
    };
    arena_init(&op->query_.arena, CONTROL_ARENA_MAX);
    query_sandbox(op, on_find_answered);
}

/* Neither an id nor a label: a name, or the beginning of an id. */
static void find_by_name(struct find_op *op)
{
    bool found = control_find_named(op->control_, op->caller, op->id, &op->sandbox);

    if (!found && op->is_start_)
        query_sandbox_id(op);
    else
        loop_later(op->control_->loop, &op->later_, on_find_later, NULL);
}

static void on_label_answered(struct store_query *q, int r, const struct err *e)
{
    struct find_op *op = container_of(q, struct find_op, query_);

    if (r >= 0 && q->n == 0) {
        arena_done(&q->arena);
        find_by_name(op);
    } else {
        on_find_answered(q, r, e);
    }
}

/* The store has an index of labels, which is correct even after labels were changed. */
static void query_sandbox_label(struct find_op *op)
{
    const struct json_map *seen = &op->caller->labels;
    struct json_pair *labels;

    op->query_ = (struct store_query){ .kind = STORE_SANDBOXES,
                                       .states = ~(1u << SANDBOX_DESTROYED),
                                       .limit = 1 };
    arena_init(&op->query_.arena, CONTROL_ARENA_MAX);
    labels = arena_array(&op->query_.arena, seen->n + 1, sizeof *labels);
    if (!labels)
        abort(); /* their number was checked when the labels were set */
    labels[0] = (struct json_pair){ op->label, arena_dup(&op->query_.arena, op->id) };
    for (size_t i = 0; i < seen->n; i++)
        labels[i + 1] = seen->p[i];
    op->query_.labels = (struct json_map){ labels, seen->n + 1 };
    query_sandbox(op, on_label_answered);
}

static bool may_be_label(const struct find_op *op)
{
    char id[ID_MAX];

    return op->label && op->id.n && op->id.n <= REQUEST_TEXT_MAX &&
           !memchr(op->id.p, 0, op->id.n) && !id_read("sbx_", op->id, id);
}

void control_find(struct control *c, struct find_op *op)
{
    op->is_start_ = set_find_text(op);
    op->control_ = c;
    op->busy_.code = ERR_OK;
    op->sandbox = NULL;
    op->record = NULL;
    if (op->is_start_ && control_find_now(c, op->caller, str_from(op->text_), &op->sandbox))
        loop_later(c->loop, &op->later_, on_find_later, NULL);
    else if (may_be_label(op))
        query_sandbox_label(op);
    else
        find_by_name(op);
}

void find_op_done(struct find_op *op)
{
    sandbox_unref(take_ptr(op->sandbox));
    arena_done(&op->query_.arena);
}

int record_fail_ended(const struct sandbox_record *r, enum err_code code, struct err *e)
{
    static const int64_t steps[] = { 86400 * NS_PER_S, 3600 * NS_PER_S, 60 * NS_PER_S };
    bool word = !strchr(r->reason, ' '); /* the request that ended it */
    int64_t ns = clock_wall() - r->finished_ns, unit = NS_PER_S;
    char age[48]; /* "3m", "2h", "4d": precise enough for a person */

    for (size_t i = 0; i < COUNT_OF(steps) && unit == NS_PER_S; i++)
        unit = ns >= steps[i] ? steps[i] : unit;
    units_show_duration(ns < 0 ? 0 : ns / unit * unit, age);
    return err_set(e, code, "sandbox %s was destroyed %s ago%s%s%s", r->id, age,
                   !r->reason[0] ? ""
                   : word        ? " ("
                                 : ": ",
                   r->reason, r->reason[0] && word ? ")" : "");
}

struct sandbox_walk {
    sandbox_each_fn *each;
    void *user;
    bool stop;
};

static void visit_sandbox(struct map_entry *v, void *user)
{
    struct sandbox *s = container_of(v, struct sandbox, entry);
    struct sandbox_walk *w = user;

    if (!w->stop && s->stored)
        w->stop = w->each(w->user, s);
}

void control_each(struct control *c, sandbox_each_fn *each, void *user)
{
    struct sandbox_walk w = { .each = each, .user = user };

    map_each(&c->sandboxes, visit_sandbox, &w);
}

size_t control_count(const struct control *c)
{
    return c->sandboxes.n;
}

int control_list(struct control *c, const struct caller *who, struct store_query *q,
                 store_answer_fn *answer, struct err *e)
{
    q->kind = STORE_SANDBOXES;
    q->owner = who->admin ? STR("") : str_from(who->owner);
    arena_init(&q->arena, CONTROL_ARENA_MAX);
    return store_ask(c->store, q, answer, e);
}
