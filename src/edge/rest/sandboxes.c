/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/sandboxes: create, list, get, destroy, recreate, extend. */
#include <stdio.h>

#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "base/clock.h"
#include "base/own.h"
#include "control/sandbox/workspace.h"
#include "edge/core/operation.h"
#include "edge/core/stats.h"
#include "edge/rest/routes.h"
#include "lib/json/reader.h"

enum { LIST_DEFAULT = 100, LIST_MAX = 1000, KEY_MAX = 127 };
enum { MEASURED_MAX = 100, MEASURED_AT_ONCE = 8 };
#define MEASURE_NS (2 * NS_PER_S) /* until a list takes no further samples */

/* A live sandbox, and with `uses` its last sample. */
static void write_live_sandbox(struct json_writer *w, struct sandbox *sandbox, bool uses)
{
    const struct sandbox_view v = sandbox_view(sandbox);
    const struct workspace_op *brought = sandbox_last_sync(sandbox);
    struct sandbox_egress egress;
    struct limits_answer limits;
    struct usage_answer usage;

    sandbox_write(w, &(struct sandbox_json){
                         .record = v.record,
                         .expires_ns = v.expires_ns,
                         .deadline_ns = v.deadline_ns,
                         .step = v.step,
                         .egress = sandbox_egress(sandbox, &egress) ? &egress : NULL,
                         .brought = brought && !(brought->flags & SYNC_DRY_RUN) ? brought : NULL,
                         .limits = limits_answer_fill(&limits, sandbox) ? &limits : NULL,
                         .usage = uses && usage_answer_fill(&usage, sandbox) ? &usage : NULL,
                     });
}

static void write_measured_sandbox(struct json_writer *w, const void *call)
{
    const struct call *c = call;

    write_live_sandbox(w, c->sandbox, true);
}

static void write_found_sandbox(struct json_writer *w, const void *call)
{
    const struct call *c = call;

    if (c->sandbox)
        write_live_sandbox(w, c->sandbox, false);
    else
        sandbox_write(w, &(struct sandbox_json){ .record = c->find.record });
}

/* Answers with the call's sandbox, live or destroyed. */
static void answer_with_sandbox(struct call *c)
{
    call_answer(c, 200, write_found_sandbox, c);
}

/* --- get --- */

struct measured_call {
    struct call *call;
    struct usage_op op;
};

static void on_sandbox_measured(struct usage_op *op)
{
    struct call *c = container_of(op, struct measured_call, op)->call;

    call_answer(c, 200, write_measured_sandbox, c);
    call_unref(c);
}

/* A sample is taken only where it is asked for: a program inside has to be woken for it. */
static void rest_show_sandbox(struct call *c)
{
    struct measured_call *m = call_state(c, sizeof *m, NULL);
    bool uses = false;

    *m = (struct measured_call){ .call = c, .op.done = on_sandbox_measured };
    if (call_query_bool(c, "usage", &uses) < 0)
        return;
    if (!uses || !c->sandbox) {
        answer_with_sandbox(c);
        return;
    }
    call_ref(c);
    sandbox_usage(c->sandbox, &m->op);
}

/* --- create --- */

static void on_creation_progress(struct create_op *op, const char *step, uint64_t bytes)
{
    call_progress(container_of(op, struct creation, op)->call, step, bytes);
}

static void on_sandbox_created(struct create_op *op, int r, const struct err *e)
{
    struct creation *n = container_of(op, struct creation, op);
    struct call *c = n->call;
    struct sandbox_json s = { .record = op->record,
                              .expires_ns = op->expires_ns,
                              .deadline_ns = op->deadline_ns };
    struct backend_quote quote;
    struct err gone;
    char location[96];

    /* Without a client the api may be closed already. */
    if (c->x && control_estimate(c->api->control, &c->caller, &n->request, &quote, NULL) >= 0)
        s.quote = &quote;
    if (r < 0 && op->recreated_from && n->replaced) {
        gone = *e;
        (void)err_wrap(&gone, r, "%s is destroyed, and the new one could not be created",
                       op->recreated_from);
        e = &gone;
    }
    if (r < 0) {
        call_fail_sandbox(c, e, op->record ? op->record->id : NULL,
                          op->record ? op->record->step : NULL);
    } else if (!op->record) {
        call_fail_with(
            c, 500, "bug",
            "the sandbox was created, but its record needs more memory than an answer may "
            "have; `sandboxer list` shows it");
    } else {
        snprintf(location, sizeof location, "/v1/sandboxes/%s", op->record->id);
        call_answer_at(c,
                       op->no_wait    ? 202
                       : op->repeated ? 200
                                      : 201,
                       location, sandbox_write, &s);
    }
    call_unref(c);
}

/* Copies the Idempotency-Key and the body: the client may disconnect before they are used. A
 * recreate has no body: the id of its sandbox distinguishes the requests. */
static int copy_idempotency_key(struct call *c, struct create_op *op, struct err *e)
{
    struct str key = call_header(c, "Idempotency-Key");
    struct str body = op->recreated_from ? str_from(op->recreated_from) : c->body;

    if (!key.n)
        return 0;
    if (key.n > KEY_MAX)
        return err_set(e, ERR_INVALID, "Idempotency-Key: longer than 127 bytes");
    op->idempotency_key = (struct str){ arena_dup(&c->arena, key), key.n };
    op->body = (struct str){ arena_dup(&c->arena, body.n ? body : STR("")), body.n };
    if (!op->idempotency_key.p || !op->body.p)
        return err_set(e, ERR_TOO_BIG, "the request needs more memory than the allowed %zu bytes",
                       c->arena.max);
    return 0;
}

static void on_recreation_checked(struct create_op *op, int r, const struct err *e);

static void fail_recreation(struct call *c, const char *id, int r, const struct err *e)
{
    struct err why = *e;

    (void)err_wrap(&why, r, "%s is unchanged: its replacement cannot be created", id);
    call_fail(c, &why);
}

/* Of a recreate: another name than that of the sandbox; empty: none. */
static int read_new_name(struct call *c, struct create_request *q, struct err *e)
{
    struct str name;
    int r = url_query(c->query, STR("name"), &c->arena, &name, e);

    if (r <= 0)
        return r;
    q->name = name.n ? arena_dup(&c->arena, name) : NULL;
    return name.n ? sandbox_name_check(name, e) : 0;
}

/* Starts to create a sandbox. from: the id of the sandbox to recreate; NULL: a new one. there: that
 * sandbox if it still exists; then only a check is made whether the new one could be created.
 * replaced: it was destroyed for this request. */
static void start_creation(struct call *c, const struct json *request, const char *from,
                           const struct sandbox *there, bool replaced)
{
    struct creation *n =
        creation_new(c, sizeof *n, there ? on_recreation_checked : on_sandbox_created);
    struct err e;
    int r;

    n->replaced = replaced;
    n->op.instead_of = there;
    n->op.no_wait = call_prefers(c, "respond-async");
    n->op.recreated_from = from;
    n->op.at = on_creation_progress;
    r = copy_idempotency_key(c, &n->op, &e);
    if (r >= 0)
        r = create_request_read(request, &n->request, &c->arena, &e);
    if (r >= 0 && from)
        r = read_new_name(c, &n->request, &e);
    if (r >= 0)
        creation_start(n);
    else if (there)
        fail_recreation(c, from, r, &e);
    else
        call_fail(c, &e);
}

static void rest_create_sandbox(struct call *c)
{
    start_creation(c, c->json, NULL, NULL, false);
}

/* --- list --- */

struct sandbox_listing {
    struct call *call;
    struct store_query query;
    bool uses; /* with samples of the sandboxes' use */
    /* taking them */
    struct listing_sample {
        struct usage_op op;
        struct sandbox_listing *of;
    } samples[MEASURED_AT_ONCE];
    size_t next, running; /* the next row to be measured; samples under way */
    int64_t until;        /* clock_mono() */
};

/* The query asks for one extra row, to detect another page. */
static bool has_next_page(const struct sandbox_listing *l)
{
    return l->query.n && l->query.n == (size_t)l->query.limit;
}

static void write_sandboxes(struct json_writer *w, const void *listing)
{
    const struct sandbox_listing *l = listing;
    const struct control *control = l->call->api->control;

    for (size_t i = 0; i < l->query.n - has_next_page(l); i++) {
        const struct sandbox_record *r = &l->query.sandboxes[i];
        struct sandbox *live;

        if (l->uses &&
            control_find_now(l->call->api->control, &l->call->caller, str_from(r->id), &live)) {
            write_live_sandbox(w, live, true);
            sandbox_unref(live);
            continue;
        }
        sandbox_write(w, &(struct sandbox_json){ .record = r,
                                                 .expires_ns = control_expires_ns(control, r),
                                                 .deadline_ns = control_deadline_ns(control, r) });
    }
}

/* The cursor: creation time and id of the last row; null: the last page. */
static void write_list_cursor(struct json_writer *w, const char *name, const void *listing)
{
    const struct sandbox_listing *l = listing;
    const struct sandbox_record *last;
    char text[64 + ID_MAX];

    if (!has_next_page(l) || l->query.n < 2) {
        json_field_null(w, name);
        return;
    }
    last = &l->query.sandboxes[l->query.n - 2];
    snprintf(text, sizeof text, "%lld.%s", (long long)last->created_ns, last->id);
    json_field_cstr(w, name, text);
}

static const struct json_field list_fields[] = {
    { "sandboxes", JSON_KIND_OBJECTS, .required = true, .schema = "Sandbox",
      .items = write_sandboxes },
    { "next", JSON_KIND_TEXT, .required = true, .nullable = true, .write = write_list_cursor },
};
static const struct json_shape sandbox_list = { "SandboxList", JSON_FIELDS(list_fields) };
const struct json_shape *const answers_sandboxes[] = { &sandbox_list, NULL };

static void on_listed_sandbox_measured(struct usage_op *op);

/* Samples the next live row. False: the page or the time is over; the rest has its last sample. */
static bool start_listing_sample(struct sandbox_listing *l, struct listing_sample *m)
{
    struct call *c = l->call;
    struct sandbox *live;

    while (c->x && l->next < l->query.n - has_next_page(l) && clock_mono() < l->until) {
        const struct sandbox_record *r = &l->query.sandboxes[l->next++];

        if (!control_find_now(c->api->control, &c->caller, str_from(r->id), &live))
            continue;
        *m = (struct listing_sample){ .op.done = on_listed_sandbox_measured, .of = l };
        l->running++;
        sandbox_usage(live, &m->op);
        sandbox_unref(live);
        return true;
    }
    return false;
}

static void on_listed_sandbox_measured(struct usage_op *op)
{
    struct listing_sample *m = container_of(op, struct listing_sample, op);
    struct sandbox_listing *l = m->of;

    l->running--;
    if (!start_listing_sample(l, m) && !l->running)
        call_settle_as(l->call, 0, NULL, 200, &sandbox_list, l);
}

/* A few at a time: a page asks many sandboxes, each of which wakes a process. */
static void on_sandboxes_listed(struct store_query *q, int r, const struct err *e)
{
    struct sandbox_listing *l = container_of(q, struct sandbox_listing, query);

    if (r >= 0 && l->uses)
        l->until = clock_mono() + MEASURE_NS;
    for (size_t i = 0; r >= 0 && l->uses && i < MEASURED_AT_ONCE; i++)
        if (!start_listing_sample(l, &l->samples[i]))
            break;
    if (!l->running)
        call_settle_as(l->call, r, e, 200, &sandbox_list, l);
}

static bool read_list_cursor(struct call *c, struct store_query *q)
{
    struct str text, time, id;
    int r = call_query(c, "cursor", &text);

    if (r <= 0)
        return r == 0;
    id = str_cut(text, '.', &time);
    return (str_to_i64(time, &q->after.created_ns) && id_valid("sbx_", id) &&
            str_copy(id, q->after.id, sizeof q->after.id)) ||
           call_fail_with(c, 400, "invalid",
                          "cursor: not a cursor of this daemon; use `next` of the previous page");
}

static bool add_state_filter(struct call *c, struct str name, uint32_t *states)
{
    enum sandbox_state s;

    if (str_eq(name, STR("all"))) {
        *states = (1u << SANDBOX_STATE_COUNT_) - 1;
        return true;
    }
    if (!sandbox_state_find(name, &s)) {
        return call_fail_with(c, 400, "invalid", "state: there is no state '%.20s'",
                              name.n ? name.p : "");
    }
    *states |= 1u << s;
    return true;
}

/* Repeated parameters: state=a&state=b, label=k=v. */
static bool read_list_filters(struct call *c, struct store_query *q)
{
    size_t labels_max = c->caller.labels.n + REQUEST_LABELS_MAX;
    struct json_pair *labels = arena_array(&c->own, labels_max, sizeof *labels);
    struct str rest = c->query, value, key;
    struct url_pair p;
    size_t n = 0;
    struct err e;

    /* all of them: they bound what the caller sees */
    for (size_t i = 0; i < c->caller.labels.n; i++)
        labels[n++] = c->caller.labels.p[i];
    while (url_next(&rest, &p)) {
        if (!str_eq(p.name, STR("state")) && !str_eq(p.name, STR("label")))
            continue;
        if (url_decode(p.value, true, &c->arena, &value, &e) < 0) {
            call_fail(c, &e);
            return false;
        }
        if (p.name.p[0] == 's') {
            if (!add_state_filter(c, value, &q->states))
                return false;
            continue;
        }
        value = str_cut(value, '=', &key);
        if (!value.p || n >= labels_max)
            return call_fail_with(c, 400, "invalid", "label: write NAME=VALUE, 32 times at most");
        labels[n++] = (struct json_pair){ arena_dup(&c->own, key), arena_dup(&c->own, value) };
    }
    q->labels = (struct json_map){ labels, n };
    if (!q->states)
        q->states = ((1u << SANDBOX_STATE_COUNT_) - 1) & ~(1u << SANDBOX_DESTROYED);
    return true;
}

/* "agent-dev" is short for "profile.agent-dev". */
static bool read_profile_filter(struct call *c, struct str *ret)
{
    static const struct str prefix = STR("profile.");
    int r = call_query(c, "profile", ret);
    char *full;

    if (r <= 0 || !ret->n || str_find(*ret, '.') < ret->n || str_starts(*ret, STR("snap_")))
        return r >= 0;
    full = call_alloc(c, prefix.n + ret->n, 1);
    memcpy(full, prefix.p, prefix.n);
    memcpy(full + prefix.n, ret->p, ret->n);
    *ret = (struct str){ full, prefix.n + ret->n };
    return true;
}

static void rest_list_sandboxes(struct call *c)
{
    struct sandbox_listing *l = call_state(c, sizeof *l, NULL);
    uint64_t limit = LIST_DEFAULT;
    struct err e;

    l->call = c;
    call_own_arena(c, &l->query.arena, 0); /* control sets its limit */
    if (!read_list_filters(c, &l->query) || !read_list_cursor(c, &l->query) ||
        !read_profile_filter(c, &l->query.profile) || call_query_bool(c, "usage", &l->uses) < 0 ||
        call_query_number(c, "limit", l->uses ? MEASURED_MAX : LIST_MAX, &limit) < 0)
        return;
    l->query.limit = (int)limit + 1;
    if (control_list(c->api->control, &c->caller, &l->query, on_sandboxes_listed, &e) < 0)
        call_fail(c, &e);
    else
        call_ref(c);
}

/* --- one --- */

static void recreate_sandbox(struct call *c, bool replaced);

/* Answers a conflict with the changes that prevent the destroy. */
static void fail_with_changes(struct call *c, const struct err *e)
{
    const struct workspace_op *brought = c->sandbox ? sandbox_last_sync(c->sandbox) : NULL;

    if (brought && e->code == ERR_CONFLICT)
        call_fail_unsynced(c, e, brought);
    else
        call_fail(c, e);
}

static void on_sandbox_changed(struct sandbox_op *op, int r, const struct err *e)
{
    struct call *c = call_of_op(op);

    if (r < 0)
        fail_with_changes(c, e);
    else
        answer_with_sandbox(c);
    call_unref(c);
}

static void on_destroyed_for_recreate(struct sandbox_op *op, int r, const struct err *e)
{
    struct call *c = call_of_op(op);

    if (r < 0)
        fail_with_changes(c, e);
    else
        recreate_sandbox(c, true);
    call_unref(c);
}

/* The index of the parameter's value among the words; -1: the call is answered. */
static int read_query_word(struct call *c, const char *name, const char *const *words, int preset,
                           const char *wanted)
{
    struct str v;
    int i = 0, r = call_query(c, name, &v);

    if (r <= 0)
        return r < 0 ? -1 : preset;
    while (words[i] && !str_eq(v, str_from(words[i])))
        i++;
    if (!words[i])
        call_fail_with(c, 400, "invalid", "%s", wanted);
    return words[i] ? i : -1;
}

static void begin_destroy(struct call *c, bool then_create)
{
    static const char *const syncs[] = { "yes", "no", "force", NULL };
    static const enum destroy_sync meant[] = { DESTROY_SYNC, DESTROY_NO_SYNC, DESTROY_FORCE_SYNC,
                                               DESTROY_USUAL };
    static const char *const rests[] = { "refuse", "keep", "discard", NULL };
    int sync =
        read_query_word(c, "sync", syncs, COUNT_OF(syncs) - 1, "sync: must be yes, no or force");
    int rest = sync < 0 ? -1
                        : read_query_word(c, "unsynced", rests, DESTROY_KEEP,
                                          "unsynced: must be keep, refuse or discard");

    if (rest < 0)
        return;
    sandbox_destroy_as(
        c->sandbox, &c->caller.actor, then_create ? "recreate" : "destroy", meant[sync],
        (enum destroy_unsynced)rest,
        call_sandbox_op(c, then_create ? on_destroyed_for_recreate : on_sandbox_changed));
}

static void rest_destroy_sandbox(struct call *c)
{
    if (c->sandbox)
        begin_destroy(c, false);
    else
        answer_with_sandbox(c); /* already destroyed: idempotent */
}

/* Reads the resolved request from the record, which is a valid request itself. */
static int read_recorded_request(struct call *c, const char **ret_id, const struct json **ret,
                                 struct err *e)
{
    const struct json_limits limits = { .bytes = REQUEST_JSON_MAX, .depth = 24 };
    const struct sandbox_record *r = c->sandbox ? sandbox_view(c->sandbox).record : c->find.record;

    *ret_id = r->id;
    return json_read(r->request, limits, &c->arena, ret, e);
}

/* Creates the new sandbox. replaced: the previous one was destroyed for it. */
static void recreate_sandbox(struct call *c, bool replaced)
{
    const struct json *v;
    const char *id;
    struct err e;

    if (!c->x)
        return;
    if (read_recorded_request(c, &id, &v, &e) < 0)
        call_fail(c, &e);
    else
        start_creation(c, v, id, NULL, replaced);
}

/* The new sandbox could be created, or its idempotency key was used before. */
static void on_recreation_checked(struct create_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct creation, op)->call;

    if (r >= 0 && op->repeated) {
        on_sandbox_created(op, r, e);
        return;
    }
    if (r < 0) {
        fail_recreation(c, op->recreated_from, r, e);
    } else if (c->x) {
        begin_destroy(c, true);
    }
    call_unref(c);
}

/* Checks before the destroy whether the new sandbox could be created. */
static void rest_recreate_sandbox(struct call *c)
{
    const struct json *v;
    const char *id;
    struct err e;
    int r;

    if (!caller_may(&c->caller, VERB_CREATE))
        call_fail_with(c, 403, "denied", "this token does not allow 'create'");
    else if (!c->sandbox)
        recreate_sandbox(c, false);
    else if ((r = read_recorded_request(c, &id, &v, &e)) < 0)
        fail_recreation(c, id, r, &e);
    else
        start_creation(c, v, id, c->sandbox, false);
}

static const struct json_field extend_fields[] = {
    { "duration", JSON_KIND_DURATION, .size = sizeof(int64_t), .required = true, .min = 1000000000,
      .max = INT64_C(31536000000000000), .doc = "New lifetime, from now." },
};

static void rest_extend_sandbox(struct call *c)
{
    int64_t duration_ns = 0;

    if (call_read(c, &duration_ns))
        sandbox_extend(c->sandbox, &c->caller.actor, duration_ns,
                       call_sandbox_op(c, on_sandbox_changed));
}

struct labels_request {
    struct json_map labels;
};

static const struct json_field labels_fields[] = {
    { "labels", JSON_KIND_MAP, JSON_AT(struct labels_request, labels), .required = true,
      .max = REQUEST_LABELS_MAX,
      .doc = "All labels; those of the caller's token and of the daemon stay." },
};

static void rest_set_labels(struct call *c)
{
    struct labels_request *q = call_alloc(c, 1, sizeof *q);
    struct err e;
    int r = 0;

    if (!call_read(c, q))
        return;
    for (size_t i = 0; r >= 0 && i < q->labels.n; i++)
        r = label_check(str_from(q->labels.p[i].key), str_from(q->labels.p[i].value), &e);
    if (r < 0)
        call_fail(c, &e);
    else
        sandbox_set_labels(c->sandbox, &c->caller, &q->labels,
                           call_sandbox_op(c, on_sandbox_changed));
}

const struct route routes_sandboxes[] = {
    { H1_POST, VERB_CREATE, "/v1/sandboxes", ROUTE_JSON | ROUTE_CONTENT, rest_create_sandbox,
      "Create a sandbox", create_request_fields, &create_request_field_count, "Sandbox",
      .status = 201 },
    { H1_GET, VERB_READ, "/v1/sandboxes", 0, rest_list_sandboxes, "List sandboxes",
      .answer = "SandboxList", .query = "state* label* profile limit cursor usage" },
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}", ROUTE_SANDBOX, rest_show_sandbox, "Show a sandbox",
      .answer = "Sandbox", .query = "usage" },
    { H1_DELETE, VERB_DESTROY, "/v1/sandboxes/{id}", ROUTE_SANDBOX, rest_destroy_sandbox,
      "Destroy a sandbox", .answer = "Sandbox", .query = "sync unsynced" },
    { H1_POST, VERB_DESTROY, "/v1/sandboxes/{id}/recreate", ROUTE_SANDBOX, rest_recreate_sandbox,
      "Destroy a sandbox and create another like it", .answer = "Sandbox", .status = 201,
      .query = "sync unsynced name" },
    { H1_POST, VERB_EXTEND, "/v1/sandboxes/{id}/extend-ttl",
      ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE, rest_extend_sandbox,
      "Extend the lifetime of a sandbox", ROUTE_FIELDS(extend_fields), .answer = "Sandbox" },
    { H1_PUT, VERB_CREATE, "/v1/sandboxes/{id}/labels", ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE,
      rest_set_labels, "Replace the labels of a sandbox", ROUTE_FIELDS(labels_fields),
      .answer = "Sandbox" },
    { .path = NULL },
};
