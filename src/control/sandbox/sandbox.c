#include "control/sandbox.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/processes.h"
#include "control/spec.h"
#include "json/reader.h"
#include "control/usage.h"
#include "control/tokens.h"

static const struct json_limits request_limits = { .bytes = REQUEST_JSON_MAX, .depth = 24 };

struct sandbox *sandbox_ref(struct sandbox *s)
{
    s->refs++;
    return s;
}

void sandbox_unref(struct sandbox *s)
{
    if (!s || --s->refs)
        return;
    ttl_stop(s);
    loop_timer_stop(&s->retry);
    processes_leave(s);
    loop_timer_stop(&s->quiet);
    if (s->box)
        s->ops->box_free(s->box);
    index_remove(&s->control->index, &s->entry);
    layers_unref(s->control, &s->facts.layers);
    layers_unref(s->control, &s->facts.base.layers);
    if (s->facts.has_paused)
        layer_unref(s->control, s->facts.paused.layer);
    owner_leave(&s->control->owners, s->owner);
    owner_leave(&s->control->families, s->family);
    profile_unref(s->profile);
    policy_text_unref(s->policy);
    workspace_drop_client(s);
    workspace_op_done(&s->brought);
    usage_free(s->usage);
    arena_done(&s->arena);
    arena_done(&s->labels[0]);
    arena_done(&s->labels[1]);
    free(s->details[0]);
    free(s->details[1]);
    free(s);
}

const char *sandbox_workdir(const struct sandbox *s)
{
    const char *dir = s->profile && s->profile->workdir ? s->profile->workdir : s->image.workdir;

    return dir && dir[0] ? dir : NULL;
}

enum sandbox_state sandbox_state(const struct sandbox *s)
{
    return s->record.state;
}

/* Everything the record points to goes to our arena. */
static int copy_texts(struct sandbox *s, struct err *e)
{
    struct sandbox_record *r = &s->record;
    struct json_pair *labels = arena_array(&s->arena, r->labels.n, sizeof *labels);
    char *request = arena_dup(&s->arena, r->request), *detail = arena_dup(&s->arena, r->detail);

    if (!request || !detail || (r->labels.n && !labels))
        return err_set(e, ERR_TOO_BIG, "sandbox %s: its record is too big", r->id);
    for (size_t i = 0; i < r->labels.n; i++) {
        labels[i].key = arena_dup(&s->arena, str_from(r->labels.p[i].key));
        labels[i].value = arena_dup(&s->arena, str_from(r->labels.p[i].value));
        if (!labels[i].key || !labels[i].value)
            return err_set(e, ERR_TOO_BIG, "sandbox %s: its labels are too long", r->id);
    }
    r->request.p = request;
    r->detail.p = detail;
    r->labels.p = labels;
    return 0;
}

/* What the texts say, as structs. */
static int read_texts(struct sandbox *s, struct err *e)
{
    const struct json *v;
    int r = facts_read(s->record.detail, &s->facts, &s->arena, e);

    if (r >= 0)
        r = json_read(s->record.request, request_limits, &s->arena, &v, e);
    if (r >= 0)
        r = create_request_read(v, &s->request, &s->arena, e);
    if (r >= 0)
        r = base_for_box(&s->facts.base, &s->arena, &s->image, e);
    return err_wrap(e, r, "the record of %s", s->record.id);
}

/* Those that have failed are kept for people to look at, and take nobody's place. */
static void count_failed(struct sandbox *s, bool was, bool is)
{
    size_t more = (size_t)is - (size_t)was;

    s->control->failed += more;
    s->owner->failed += more;
    if (s->family)
        s->family->failed += more;
}

/* A record of a version that did not record families has that of its maker. */
static void find_sandbox_family(struct sandbox *s)
{
    struct sandbox_record *r = &s->record;

    if (!r->family[0] && r->maker[0])
        snprintf(r->family, sizeof r->family, "%s", tokens_family(s->control->tokens, r->maker));
}

static void join_account(struct sandbox *s)
{
    struct account a = sandbox_account(s);

    s->owner = owner_join(&s->control->owners, a.name);
    s->family = a.part.n ? owner_join(&s->control->families, s->record.family) : NULL;
}

int sandbox_new(struct control *c, const struct sandbox_record *record, struct sandbox **ret,
                struct err *e)
{
    struct sandbox *s = calloc(1, sizeof *s);
    int r;

    if (!s)
        abort();
    s->client = (struct control_client){ -1, -1 };
    s->refs = 1;
    s->control = c;
    s->record = *record;
    find_sandbox_family(s);
    arena_init(&s->arena, SANDBOX_ARENA_MAX);
    r = copy_texts(s, e);
    if (r >= 0)
        r = read_texts(s, e);
    if (r < 0) {
        arena_done(&s->arena);
        free(s);
        return r;
    }
    s->entry.id = s->record.id;
    index_add(&c->index, &s->entry);
    join_account(s);
    layers_ref(c, &s->facts.layers);
    layers_ref(c, &s->facts.base.layers);
    if (s->facts.has_paused)
        layer_ref(c, s->facts.paused.layer);
    count_failed(s, false, s->record.state == SANDBOX_FAILED);
    idle_begin(&s->idle);
    s->counted = (struct outlet_counters){ .allowed = s->facts.egress.allowed,
                                           .denied = s->facts.egress.denied,
                                           .bytes_out = s->facts.egress.bytes_out,
                                           .bytes_in = s->facts.egress.bytes_in };
    *ret = s;
    return 0;
}

void sandbox_changed(struct sandbox *s, const struct sandbox_record *now)
{
    count_failed(s, s->record.state == SANDBOX_FAILED, now->state == SANDBOX_FAILED);
    s->record = *now;
    s->stored = true;
}

void sandbox_take_layers(struct sandbox *s, const struct json_strs *layers, const char *snapshot)
{
    const char **p = arena_array(&s->arena, layers->n, sizeof *p);

    for (size_t i = 0; p && i < layers->n; i++)
        p[i] = arena_dup(&s->arena, str_from(layers->p[i]));
    if (!p)
        abort();
    s->facts.layers = (struct json_strs){ p, layers->n };
    s->facts.snapshot = snapshot ? arena_dup(&s->arena, str_from(snapshot)) : NULL;
    layers_ref(s->control, &s->facts.layers);
}

int sandbox_take_base(struct sandbox *s, const struct base *b, struct err *e)
{
    int r = base_copy(b, &s->arena, &s->facts.base, e);

    if (r >= 0)
        layers_ref(s->control, &s->facts.base.layers);
    s->facts.has_image = s->facts.base.ref;
    return r < 0 ? r : base_for_box(&s->facts.base, &s->arena, &s->image, e);
}

/* They are written again and again: the text before the last is of no more use. */
void sandbox_put_facts(struct sandbox *s, struct sandbox_record *next)
{
    char **room = &s->details[s->details[0] && s->record.detail.p == s->details[0]];
    struct str text;

    sandbox_count_egress(s);
    text = facts_write(&s->facts);
    if (!text.p)
        return;
    free(*room);
    *room = (char *)(uintptr_t)text.p;
    next->detail = text;
}

/* A time of clock_boot() as the wall clock stands now; 0 where no time of this record runs. */
static int64_t show_boot_time(const struct control *c, const struct sandbox_record *r, int64_t at)
{
    if (!r->deadline_ns || r->state >= SANDBOX_EXPIRED || strcmp(r->boot, c->boot) != 0)
        return 0;
    return clock_wall() + (at - clock_boot());
}

int64_t control_deadline_ns(const struct control *c, const struct sandbox_record *r)
{
    return show_boot_time(c, r, r->deadline_ns);
}

int64_t control_expires_ns(const struct control *c, const struct sandbox_record *r)
{
    struct index_entry *v = index_find(&c->index, str_from(r->id));
    const struct sandbox *s = v ? container_of(v, struct sandbox, entry) : NULL;

    return show_boot_time(c, r, s && s->record.deadline_ns ? ttl_end(s) : r->deadline_ns);
}

struct sandbox_view sandbox_view(const struct sandbox *s)
{
    return (struct sandbox_view){
        .record = &s->record,
        .expires_ns = control_expires_ns(s->control, &s->record),
        .deadline_ns = control_deadline_ns(s->control, &s->record),
        .step = s->record.state == SANDBOX_PROVISIONING && s->step ? s->step : "",
        .memory = s->profile ? spec_memory(s->profile, &s->request) : 0,
        .oom_kills = s->facts.actuals.oom_kills,
    };
}

bool sandbox_visible(const struct caller *who, const struct sandbox_record *r)
{
    return caller_sees(who, r->owner, &r->labels);
}

void sandbox_op_cancel(struct sandbox_op *op)
{
    if (!op->sandbox)
        return;
    link_leave(&op->link_);
    loop_later_stop(&op->later_);
    sandbox_unref(take_ptr(op->sandbox));
}

static void finish_op(struct loop_later *l)
{
    struct sandbox_op *op = container_of(l, struct sandbox_op, later_);
    struct sandbox *s = take_ptr(op->sandbox);

    op->done(op, op->r_, op->r_ < 0 ? &op->err_ : NULL);
    sandbox_unref(s);
}

void sandbox_op_finish(struct sandbox_op *op, struct sandbox *s, int r, const struct err *e)
{
    op->sandbox = sandbox_ref(s);
    op->r_ = r;
    if (e)
        op->err_ = *e;
    loop_later(s->control->loop, &op->later_, finish_op, NULL);
}
