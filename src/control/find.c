/* Finding a sandbox by its id or by the start of it. */
#include <stdio.h>
#include <stdlib.h>

#include "control/sandbox.h"

bool control_find_now(struct control *c, const struct caller *who, struct str id,
                      struct sandbox **ret)
{
    struct index_entry *v = index_find(&c->index, id);
    struct sandbox *s = v ? container_of(v, struct sandbox, entry) : NULL;

    if (!s || !s->stored || !sandbox_visible(who, &s->record))
        return false;
    *ret = sandbox_ref(s);
    return true;
}

static void finish(struct find_op *op, int r, const struct err *e)
{
    op->control_ = NULL;
    op->done(op, r, e);
}

static void fail_not_found(struct find_op *op)
{
    struct err e;
    int r = err_set(&e, ERR_NOT_FOUND, "there is no sandbox %s", op->text_);

    finish(op, r, &e);
}

static void answered(struct store_query *q, int r, const struct err *e)
{
    struct find_op *op = container_of(q, struct find_op, query_);
    struct sandbox_record *found = NULL;
    struct err many;
    size_t n = 0;

    if (r < 0) {
        finish(op, r, e);
        return;
    }
    for (size_t i = 0; i < q->n; i++)
        if (sandbox_visible(op->caller, &q->sandboxes[i])) {
            found = found ? found : &q->sandboxes[i];
            n++;
        }
    if (!found) {
        fail_not_found(op);
    } else if (n > 1 && strcmp(found->id, op->text_) != 0) {
        r = err_set(&many, ERR_CONFLICT, "%s is the start of several ids; write more of it",
                    op->text_);
        finish(op, r, &many);
    } else {
        if (!control_find_now(op->control_, op->caller, str_from(found->id), &op->sandbox))
            op->record = found;
        finish(op, 0, NULL);
    }
}

static void found_now(struct loop_later *l)
{
    struct find_op *op = container_of(l, struct find_op, later_);

    if (op->sandbox)
        finish(op, 0, NULL);
    else if (op->busy_.code)
        finish(op, -(int)op->busy_.code, &op->busy_);
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

/* "sbx_4k7" or just "4k7". */
static bool set_text(struct find_op *op)
{
    bool prefixed = str_starts(op->id, STR("sbx_"));

    op->text_[0] = 0;
    if (!is_id_start(op->id) || op->id.n + (prefixed ? 0 : 4) >= sizeof op->text_) {
        str_copy(op->id.n < sizeof op->text_ ? op->id : STR("like that"), op->text_,
                 sizeof op->text_);
        return false;
    }
    snprintf(op->text_, sizeof op->text_, "%s" STR_FMT, prefixed ? "" : "sbx_", STR_ARG(op->id));
    return true;
}

void control_find(struct control *c, struct find_op *op)
{
    bool good = set_text(op);

    op->control_ = c;
    op->busy_.code = ERR_OK;
    op->sandbox = NULL;
    op->record = NULL;
    if (!good || control_find_now(c, op->caller, str_from(op->text_), &op->sandbox)) {
        loop_later(c->loop, &op->later_, found_now, NULL);
        return;
    }
    op->query_ = (struct store_query){
        .kind = id_valid("sbx_", str_from(op->text_)) ? STORE_SANDBOX : STORE_PREFIX,
        .text = str_from(op->text_),
        .owner = op->caller->admin ? STR("") : str_from(op->caller->owner),
        .limit = 2,
    };
    arena_init(&op->query_.arena, CONTROL_ARENA_MAX);
    if (store_ask(c->store, &op->query_, answered, &op->busy_) < 0)
        loop_later(c->loop, &op->later_, found_now, NULL);
}

void find_op_done(struct find_op *op)
{
    sandbox_unref(take_ptr(op->sandbox));
    arena_done(&op->query_.arena);
}

struct walk {
    sandbox_each_fn *each;
    void *user;
    bool stop;
};

static void walk_one(struct index_entry *v, void *user)
{
    struct sandbox *s = container_of(v, struct sandbox, entry);
    struct walk *w = user;

    if (!w->stop && s->stored)
        w->stop = w->each(w->user, s);
}

void control_each(struct control *c, sandbox_each_fn *each, void *user)
{
    struct walk w = { .each = each, .user = user };

    index_each(&c->index, walk_one, &w);
}

int control_list(struct control *c, const struct caller *who, struct store_query *q,
                 store_answer_fn *answer, struct err *e)
{
    q->kind = STORE_SANDBOXES;
    q->owner = who->admin ? STR("") : str_from(who->owner);
    arena_init(&q->arena, CONTROL_ARENA_MAX);
    return store_ask(c->store, q, answer, e);
}
