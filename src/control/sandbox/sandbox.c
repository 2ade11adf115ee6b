/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/sandbox.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/own.h"
#include "control/process/processes.h"
#include "control/sandbox/spec.h"
#include "lib/json/reader.h"
#include "control/sandbox/usage.h"
#include "control/owner/tokens.h"

static const struct json_limits request_limits = { .bytes = REQUEST_JSON_MAX, .depth = 24 };

struct sandbox *sandbox_ref(struct sandbox *s)
{
    s->refs++;
    return s;
}

struct sandbox *sandbox_known(const struct control *c, const char *id)
{
    struct map_entry *v = map_find(&c->sandboxes, str_from(id));

    return v ? container_of(v, struct sandbox, entry) : NULL;
}

const struct sandbox_record *control_record(const struct control *c, const char *id)
{
    const struct sandbox *s = sandbox_known(c, id);

    return s ? &s->record : NULL;
}

bool control_has_record(const struct control *c, const char *id)
{
    const struct sandbox *s = sandbox_known(c, id);

    return s && s->stored;
}

void control_note_egress(struct control *c, const char *id)
{
    struct sandbox *s = sandbox_known(c, id);

    if (s)
        idle_note(&s->idle, USE_EGRESS);
}

void sandbox_leave_map(struct sandbox *s)
{
    map_remove(&s->control->sandboxes, &s->entry);
    names_leave(s);
    owner_leave(&s->control->owners, take_ptr(s->owner));
    owner_leave(&s->control->families, take_ptr(s->family));
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
    sandbox_leave_map(s);
    layers_unref(s->control, &s->detail.layers);
    layers_unref(s->control, &s->detail.base.layers);
    if (s->detail.has_paused && !s->detail.paused.in_memory)
        layer_unref(s->control, s->detail.paused.layer);
    profile_unref(s->profile);
    policy_text_unref(s->policy);
    workspace_drop_client(s);
    mounts_cancel(s);
    workspace_op_done(&s->last_sync);
    free(s->usage); /* waiting operations hold the sandbox */
    arena_done(&s->arena);
    arena_done(&s->box_arena);
    arena_done(&s->layers_arena);
    arena_done(&s->stack_arena);
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

/* Copies everything that the record points to into the arena, and parses its JSON texts. */
static int load_record_texts(struct sandbox *s, struct err *e)
{
    struct sandbox_record *record = &s->record;
    const struct json *v;
    int r;

    record->request.p = arena_dup(&s->arena, record->request);
    record->detail.p = arena_dup(&s->arena, record->detail);
    if (!record->request.p || !record->detail.p || !json_map_copy(&record->labels, &s->arena))
        return err_set(e, ERR_TOO_BIG,
                       "sandbox %s: its record needs more memory than the allowed %d bytes",
                       record->id, SANDBOX_ARENA_MAX);
    r = sandbox_detail_read(record->detail, &s->detail, &s->arena, e);
    r = r < 0 ? r : json_read(s->record.request, request_limits, &s->arena, &v, e);
    r = r < 0 ? r : create_request_read(v, &s->request, &s->arena, e);
    r = r < 0 ? r : base_image_for_box(&s->detail.base, &s->arena, &s->image, e);
    return err_wrap(e, r, "the record of %s", s->record.id);
}

/* Failed sandboxes are kept for inspection and do not count against limits. */
static void count_failed(struct sandbox *s, bool was, bool is)
{
    size_t more = (size_t)is - (size_t)was;

    s->control->failed += more;
    if (s->owner)
        s->owner->failed += more;
    if (s->family)
        s->family->failed += more;
}

int sandbox_new(struct control *c, const struct sandbox_record *record, struct sandbox **ret,
                struct err *e)
{
    struct sandbox *s = new0(sizeof *s);
    struct account account;
    int r;

    s->client = (struct control_client){ -1, -1 };
    s->granted = -1;
    s->refs = 1;
    s->control = c;
    s->record = *record;
    if (!record->family[0] && record->maker[0]) /* of a version without families */
        snprintf(s->record.family, sizeof s->record.family, "%s",
                 tokens_family(c->tokens, record->maker));
    arena_init(&s->arena, SANDBOX_ARENA_MAX);
    r = load_record_texts(s, e);
    if (r < 0) {
        arena_done(&s->arena);
        free(s);
        return r;
    }
    s->entry.id = s->record.id;
    map_add(&c->sandboxes, &s->entry);
    names_join(s);
    account = sandbox_account(s);
    s->owner = owner_join(&c->owners, account.name);
    s->family = account.part.n ? owner_join(&c->families, s->record.family) : NULL;
    layers_ref(c, &s->detail.layers);
    layers_ref(c, &s->detail.base.layers);
    if (s->detail.has_paused && !s->detail.paused.in_memory)
        layer_ref(c, s->detail.paused.layer);
    count_failed(s, false, s->record.state == SANDBOX_FAILED);
    idle_begin(&s->idle);
    s->counted = (struct egress_link_counters){ .allowed = s->detail.egress.allowed,
                                                .denied = s->detail.egress.denied,
                                                .bytes_out = s->detail.egress.bytes_out,
                                                .bytes_in = s->detail.egress.bytes_in };
    *ret = s;
    return 0;
}

void sandbox_update_record(struct sandbox *s, const struct sandbox_record *now)
{
    count_failed(s, s->record.state == SANDBOX_FAILED, now->state == SANDBOX_FAILED);
    s->record = *now;
    s->stored = true;
}

void sandbox_take_layers(struct sandbox *s, const struct json_strs *layers, const char *snapshot)
{
    s->detail.layers = *layers;
    if (!json_strs_copy(&s->detail.layers, &s->arena))
        abort();
    s->detail.snapshot = snapshot ? arena_dup(&s->arena, str_from(snapshot)) : NULL;
    layers_ref(s->control, &s->detail.layers);
}

int sandbox_set_stack(struct sandbox *s, const char *first, const struct json_strs *below,
                      struct err *e)
{
    arena_done(&s->stack_arena);
    arena_init(&s->stack_arena, SANDBOX_ARENA_MAX);
    return layers_stack(first, below, &s->stack_arena, &s->stack, e);
}

void sandbox_exchange_layers(struct sandbox *s, const struct json_strs *names, struct arena *on)
{
    s->detail.layers = *names;
    arena_swap(&s->layers_arena, on);
}

int sandbox_take_base(struct sandbox *s, const struct base_image *b, struct err *e)
{
    int r = base_image_copy(b, &s->arena, &s->detail.base, e);

    if (r >= 0)
        layers_ref(s->control, &s->detail.base.layers);
    s->detail.has_image = s->detail.base.ref;
    return r < 0 ? r : base_image_for_box(&s->detail.base, &s->arena, &s->image, e);
}

/* Written often, so two buffers alternate: the one that the record does not use is replaced. */
void sandbox_write_detail(struct sandbox *s, struct sandbox_record *next)
{
    char **room = &s->details[s->details[0] && s->record.detail.p == s->details[0]];
    struct str text;

    sandbox_count_egress(s);
    text = sandbox_detail_write(&s->detail);
    if (!text.p)
        return;
    free(*room);
    *room = (char *)(uintptr_t)text.p;
    next->detail = text;
}

bool sandbox_of_this_boot(const struct control *c, const struct sandbox_record *r)
{
    return strcmp(r->boot, c->boot) == 0;
}

/* Converts a clock_boot() time to the wall clock; 0 if the record has no deadline now. */
static int64_t show_boot_time(const struct control *c, const struct sandbox_record *r, int64_t at)
{
    if (!r->deadline_ns || r->state >= SANDBOX_EXPIRED || !sandbox_of_this_boot(c, r))
        return 0;
    return clock_wall() + (at - clock_boot());
}

int64_t control_deadline_ns(const struct control *c, const struct sandbox_record *r)
{
    return show_boot_time(c, r, r->deadline_ns);
}

int64_t control_expires_ns(const struct control *c, const struct sandbox_record *r)
{
    const struct sandbox *s = sandbox_known(c, r->id);

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
        .oom_kills = s->detail.actuals.oom_kills,
    };
}

bool sandbox_visible(const struct caller *who, const struct sandbox_record *r)
{
    return caller_sees(who, r->owner, &r->labels) ||
           (who->also[0] && strcmp(who->also, r->id) == 0 && strcmp(who->owner, r->owner) == 0);
}

static void on_sandbox_op_later(struct loop_later *l)
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
    loop_later(s->control->loop, &op->later_, on_sandbox_op_later, NULL);
}
