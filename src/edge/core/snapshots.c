/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/snapshots, and snapshot, fork, pause, stop, resume and diff of a sandbox. */
#include "edge/core/snapshots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "edge/core/internal.h"
#include "edge/core/operation.h"
#include "edge/core/route.h"

enum { DIFF_BYTES_MAX = 16 << 20 };

/* --- JSON --- */

void pause_write(struct json_writer *w, int64_t pause_ns)
{
    json_field_double(w, "pause_ms", round((double)pause_ns / 1000.0) / 1000.0);
}

static int64_t count_words(struct str text)
{
    int64_t n = 0;
    struct str word;

    while (text.n) {
        text = str_cut(text, ' ', &word);
        n++;
    }
    return n;
}

static void write_snapshot_members(struct json_writer *w, const struct snapshot_record *r)
{
    json_field_text(w, "snapshot_id", r->id);
    json_field_optional(w, "name", r->name);
    json_field_text(w, "owner", r->owner);
    json_field_text(w, "sandbox_id", r->sandbox);
    json_field_text(w, "profile", r->profile);
    json_field_int(w, "profile_version", r->profile_version);
    if (r->base.n)
        json_field_text(w, "image", r->image.p);
    json_field_int(w, "bytes", r->bytes);
    json_field_int(w, "entries", r->entries);
    pause_write(w, r->pause_ns);
    json_field_int(w, "layers", count_words(r->layers));
    json_field_begin_object(w, "labels");
    for (size_t i = 0; i < r->labels.n; i++)
        json_field_text(w, r->labels.p[i].key, r->labels.p[i].value);
    json_end_object(w);
    time_write(w, "created_at", r->created_ns);
    time_write(w, "expires_at", r->expires_ns);
}

void snapshot_write(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    write_snapshot_members(w, what);
    json_end_object(w);
}

/* --- snapshots --- */

static void add_to_snapshot_list(const struct snapshot *s, void *user)
{
    struct snapshot_list *all = user;

    if (all->n == all->cap_) {
        all->cap_ = all->cap_ ? all->cap_ * 2 : 64;
        all->p = reallocarray(all->p, all->cap_, sizeof *all->p);
        if (!all->p)
            abort();
    }
    all->p[all->n++] = s;
}

static int compare_snapshot_age(const void *a, const void *b)
{
    const struct snapshot *x = *(const struct snapshot *const *)a,
                          *y = *(const struct snapshot *const *)b;

    return x->record.created_ns < y->record.created_ns   ? 1
           : x->record.created_ns > y->record.created_ns ? -1
                                                         : strcmp(x->record.id, y->record.id);
}

void snapshot_list_fill(const struct call *c, struct snapshot_list *ret)
{
    *ret = (struct snapshot_list){ 0 };
    snapshots_each(c->api->control, &c->caller, add_to_snapshot_list, ret);
    if (ret->n)
        qsort(ret->p, ret->n, sizeof *ret->p, compare_snapshot_age);
}

void snapshot_list_done(struct snapshot_list *l)
{
    free(l->p);
}

static void write_snapshot_list(struct json_writer *w, const void *what)
{
    const struct snapshot_list *all = what;

    json_begin_object(w);
    json_field_begin_array(w, "snapshots");
    for (size_t i = 0; i < all->n; i++)
        snapshot_write(w, &all->p[i]->record);
    json_end_array(w);
    json_end_object(w);
}

static void rest_list_snapshots(struct call *c)
{
    AUTO(snapshot_list_done) struct snapshot_list all;

    snapshot_list_fill(c, &all);
    call_answer(c, 200, write_snapshot_list, &all);
}

static const struct snapshot *find_snapshot_of_call(struct call *c)
{
    const struct snapshot *s = snapshot_find(c->api->control, &c->caller, c->params[0]);

    if (!s)
        call_fail_with(c, 404, "not_found", "there is no such snapshot");
    return s;
}

struct snapshot_detail {
    struct control *control;
    const struct snapshot *snapshot;
};

static void write_snapshot_detail(struct json_writer *w, const void *what)
{
    const struct snapshot_detail *s = what;
    const struct json_strs *layers = &s->snapshot->layers;

    json_begin_object(w);
    write_snapshot_members(w, &s->snapshot->record);
    json_field_begin_array(w, "digests");
    for (size_t i = 0; i < layers->n; i++) {
        const char *measure = layer_digest(s->control, layers->p[i]);

        if (measure[0])
            json_put_str(w, str_from(measure));
        else
            json_put_null(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static void rest_get_snapshot(struct call *c)
{
    const struct snapshot_detail s = { c->api->control, find_snapshot_of_call(c) };

    if (s.snapshot)
        call_answer(c, 200, write_snapshot_detail, &s);
}

/* --- verify --- */

struct snapshot_verification {
    struct call *call;
    struct digest_op op;
    char id[ID_MAX];
    bool under_way;
};

static void on_verify_client_gone(struct call *c)
{
    struct snapshot_verification *v = c->state;

    if (!v->under_way)
        return;
    v->under_way = false;
    digest_cancel(&v->op);
    call_unref(c);
}

static void write_verification(struct json_writer *w, const void *what)
{
    const struct snapshot_verification *v = what;

    json_begin_object(w);
    json_field_text(w, "snapshot_id", v->id);
    json_field_int(w, "layers", (int64_t)v->op.n);
    json_field_int(w, "first_time", (int64_t)v->op.first);
    json_field_int(w, "bytes", (int64_t)v->op.bytes);
    json_end_object(w);
}

static void on_snapshot_verified(struct digest_op *op, int r, const struct err *e)
{
    struct snapshot_verification *v = container_of(op, struct snapshot_verification, op);
    struct call *c = v->call;

    v->under_way = false;
    call_settle_with(c, r, e, 200, write_verification, v);
}

static void on_verify_progress(struct digest_op *op, uint64_t bytes)
{
    call_progress(container_of(op, struct snapshot_verification, op)->call, "verify", bytes);
}

static void rest_verify_snapshot(struct call *c)
{
    const struct snapshot *s = find_snapshot_of_call(c);
    struct snapshot_verification *v;

    if (!s)
        return;
    v = call_state(c, sizeof *v, NULL);
    v->call = call_ref(c);
    v->under_way = true;
    v->op.at = on_verify_progress;
    v->op.done = on_snapshot_verified;
    memcpy(v->id, s->record.id, sizeof v->id);
    c->on_gone = on_verify_client_gone;
    snapshot_verify(c->api->control, s, &v->op);
}

/* --- delete --- */

struct snapshot_deletion {
    struct call *call;
    struct snapshot_delete_op op;
};

static void on_snapshot_deleted(struct snapshot_delete_op *op, int r, const struct err *e)
{
    call_settle(container_of(op, struct snapshot_deletion, op)->call, r, e);
}

void snapshot_delete_for(struct call *c, const struct snapshot *s)
{
    struct snapshot_deletion *d = call_state(c, sizeof *d, NULL);

    d->call = call_ref(c);
    d->op.done = on_snapshot_deleted;
    snapshot_delete(c->api->control, s, &d->op);
}

/* A name selects the newest of several snapshots. That is good enough for reading but not for
 * deleting: a client that repeats the request would delete one after the other. */
static int check_unambiguous(const struct call *c, const struct snapshot *s, struct err *e)
{
    AUTO(buf_done) struct buf ids = BUF_INIT(160);
    AUTO(snapshot_list_done) struct snapshot_list all = { 0 };
    size_t n = 0;

    if (str_eq(c->params[0], str_from(s->record.id)))
        return 0;
    snapshot_list_fill(c, &all);
    for (size_t i = 0; i < all.n; i++)
        if (str_eq(c->params[0], str_from(all.p[i]->record.name)) && n++ < 4)
            buf_addf(&ids, "%s%s", ids.n ? ", " : "", all.p[i]->record.id);
    if (n < 2)
        return 0;
    return err_set(e, ERR_CONFLICT, "%zu snapshots have this name: " STR_FMT "%s; delete by id", n,
                   STR_ARG(buf_str(&ids)), n > 4 ? " and more" : "");
}

static void rest_delete_snapshot(struct call *c)
{
    const struct snapshot *s = find_snapshot_of_call(c);
    struct err e;

    if (s && check_unambiguous(c, s, &e) < 0)
        call_fail(c, &e);
    else if (s)
        snapshot_delete_for(c, s);
}

/* --- take --- */

const struct json_field snapshot_request_fields[] = {
    { "name", JSON_KIND_STR, JSON_AT(struct snapshot_request, name), .max = 63,
      .doc = "Name of the snapshot; a name refers to its newest snapshot." },
};
const size_t snapshot_request_field_count = COUNT_OF(snapshot_request_fields);

struct snapshot_capture {
    struct call *call;
    struct snapshot_op op;
    snapshot_taken_fn *answer;
};

static void on_snapshot_taken(struct snapshot_op *op, int r, const struct err *e)
{
    struct snapshot_capture *t = container_of(op, struct snapshot_capture, op);
    struct call *c = t->call;

    if (r < 0)
        call_fail(c, e);
    else
        t->answer(c, op->snapshot);
    call_unref(c);
}

void snapshot_take_for(struct call *c, const struct snapshot_request *q, snapshot_taken_fn *answer)
{
    struct snapshot_capture *t = call_state(c, sizeof *t, NULL);

    t->call = call_ref(c);
    t->answer = answer;
    t->op =
        (struct snapshot_op){ .caller = &c->caller, .name = q->name, .done = on_snapshot_taken };
    sandbox_snapshot(c->sandbox, &t->op);
}

static void answer_with_snapshot(struct call *c, const struct snapshot *s)
{
    call_answer(c, 201, snapshot_write, &s->record);
}

static void rest_take_snapshot(struct call *c)
{
    struct snapshot_request q = { 0 };
    struct err e;

    if (json_bind(c->json, snapshot_request_fields, snapshot_request_field_count, &q, &c->arena,
                  &e) < 0 ||
        (q.name && snapshot_name_check(str_from(q.name), &e) < 0))
        call_fail(c, &e);
    else
        snapshot_take_for(c, &q, answer_with_snapshot);
}

/* --- fork --- */

struct fork_body {
    uint32_t count;
    bool keep_env;
};

static const struct json_field fork_fields[] = {
    { "count", JSON_KIND_UINT, JSON_AT(struct fork_body, count), .min = 1, .max = FORK_MAX,
      .preset = "1", .doc = "Number of copies." },
    { "keep_env", JSON_KIND_BOOL, JSON_AT(struct fork_body, keep_env),
      .doc = "Copy the environment variables that the sandbox was created with, including "
             "credentials." },
};
static const size_t fork_field_count = COUNT_OF(fork_fields);

struct fork_call {
    struct call *call;
    struct fork_op op;
};

static void release_fork_call(void *state)
{
    struct fork_call *f = state;

    if (f->op.made)
        fork_op_done(&f->op);
}

void call_fork(struct call *c, const struct fork_op *op)
{
    struct fork_call *f = call_state(c, sizeof *f, release_fork_call);

    f->call = call_ref(c);
    f->op = *op;
    f->op.caller = &c->caller;
    sandbox_fork(c->sandbox, &f->op);
}

struct call *call_of_fork(struct fork_op *op)
{
    return container_of(op, struct fork_call, op)->call;
}

static void write_fork_list(struct json_writer *w, const void *what)
{
    const struct fork_op *op = what;

    json_begin_object(w);
    json_field_begin_array(w, "sandboxes");
    for (unsigned i = 0; i < op->next_; i++)
        if (op->made[i].record)
            sandbox_write(w, &(struct sandbox_json){ .record = op->made[i].record,
                                                     .expires_ns = op->made[i].expires_ns,
                                                     .deadline_ns = op->made[i].deadline_ns });
    json_end_array(w);
    pause_write(w, op->pause_ns);
    json_end_object(w);
}

static void on_sandbox_forked(struct fork_op *op, int r, const struct err *e)
{
    call_settle_with(call_of_fork(op), r, e, 201, write_fork_list, op);
}

static void rest_fork_sandbox(struct call *c)
{
    struct fork_body q = { 0 };
    struct err e;

    if (json_bind(c->json, fork_fields, fork_field_count, &q, &c->arena, &e) < 0)
        call_fail(c, &e);
    else
        call_fork(c, &(struct fork_op){
                         .count = q.count, .keep_env = q.keep_env, .done = on_sandbox_forked });
}

/* --- pause and resume --- */

static void on_pause_state_changed(struct sandbox_op *op, int r, const struct err *e)
{
    struct call *c = call_of_op(op);
    const struct sandbox_view v = sandbox_view(c->sandbox);
    const struct sandbox_json s = { .record = v.record,
                                    .expires_ns = v.expires_ns,
                                    .deadline_ns = v.deadline_ns,
                                    .machine = c->caller.admin };

    call_settle_with(c, r, e, 200, sandbox_write, &s);
}

static void rest_pause_sandbox(struct call *c)
{
    sandbox_pause(c->sandbox, &c->caller.actor, call_sandbox_op(c, on_pause_state_changed));
}

static void rest_stop_sandbox(struct call *c)
{
    sandbox_stop(c->sandbox, &c->caller.actor, call_sandbox_op(c, on_pause_state_changed));
}

static void rest_resume_sandbox(struct call *c)
{
    sandbox_resume(c->sandbox, &c->caller.actor, call_sandbox_op(c, on_pause_state_changed));
}

/* --- diff --- */

struct diff_call {
    struct call *call;
    struct diff_op op;
    char against[ID_MAX + 64];
    char *records;
    size_t n;
};

/* A record: a letter for the change, one for the kind, the path. */
static void write_diff_change(struct json_writer *w, const char *record)
{
    static const char *const kinds[] = { "d dir", "f file", "l link", "o other" };

    json_begin_object(w);
    json_field_text(w, "change",
                    record[0] == 'A'   ? "added"
                    : record[0] == 'C' ? "changed"
                                       : "deleted");
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (kinds[i][0] == record[1])
            json_field_text(w, "kind", kinds[i] + 2);
    json_field_text(w, "path", record + 2);
    json_end_object(w);
}

static void write_diff_changes(struct json_writer *w, const void *what)
{
    const struct diff_call *d = what;
    size_t at = 0;

    json_begin_object(w);
    json_field_begin_array(w, "changes");
    while (at + 2 < d->n) {
        write_diff_change(w, d->records + at);
        at += strlen(d->records + at) + 1;
    }
    json_end_array(w);
    json_end_object(w);
}

static int read_diff_records(struct diff_call *d, struct err *e)
{
    off_t size = lseek(d->op.file, 0, SEEK_END);

    if (size < 0 || size > DIFF_BYTES_MAX)
        return err_set(e, ERR_TOO_BIG, "the list of changed paths is longer than %d MiB",
                       DIFF_BYTES_MAX >> 20);
    d->records = call_alloc(d->call, 1, (size_t)size + 1); /* NUL-terminated in any case */
    if (pread(d->op.file, d->records, (size_t)size, 0) != size)
        return err_sys(e, "reading the list of changes");
    d->n = (size_t)size;
    return 0;
}

static void on_diff_done(struct diff_op *op, int r, const struct err *e)
{
    struct diff_call *d = container_of(op, struct diff_call, op);
    struct call *c = d->call;
    struct err why;

    if (r >= 0) {
        r = read_diff_records(d, &why);
        e = &why;
    }
    call_settle_with(c, r, e, 200, write_diff_changes, d);
}

static void rest_diff_sandbox(struct call *c)
{
    struct diff_call *d = call_state(c, sizeof *d, NULL);
    struct str snapshot = { NULL, 0 };

    d->op = (struct diff_op){ .caller = &c->caller, .done = on_diff_done };
    call_own_fd(c, &d->op.file);
    if (call_query(c, "snapshot", &snapshot) < 0)
        return;
    if (snapshot.n && !str_copy(snapshot, d->against, sizeof d->against)) {
        call_fail_with(c, 404, "not_found", "there is no such snapshot");
        return;
    }
    d->op.against = snapshot.n ? d->against : NULL;
    d->call = call_ref(c);
    sandbox_diff(c->sandbox, &d->op);
}

const struct route routes_snapshots[] = {
    { H1_POST, VERB_CREATE, "/v1/sandboxes/{id}/snapshot", ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE,
      rest_take_snapshot, "Take a snapshot of a sandbox", snapshot_request_fields,
      &snapshot_request_field_count, "Snapshot", .status = 201 },
    { H1_POST, VERB_CREATE, "/v1/sandboxes/{id}/fork", ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE,
      rest_fork_sandbox, "Create copies of a sandbox", fork_fields, &fork_field_count, "Forks",
      .status = 201 },
    { H1_POST, VERB_EXTEND, "/v1/sandboxes/{id}/pause", ROUTE_SANDBOX | ROUTE_LIVE,
      rest_pause_sandbox, "Pause a sandbox", .answer = "Sandbox" },
    { H1_POST, VERB_EXTEND, "/v1/sandboxes/{id}/stop", ROUTE_SANDBOX | ROUTE_LIVE,
      rest_stop_sandbox, "Stop the processes of a sandbox and keep its files until it is resumed",
      .answer = "Sandbox" },
    { H1_POST, VERB_EXTEND, "/v1/sandboxes/{id}/resume", ROUTE_SANDBOX | ROUTE_LIVE,
      rest_resume_sandbox, "Resume a sandbox", .answer = "Sandbox" },
    { H1_GET, VERB_FILES, "/v1/sandboxes/{id}/diff", ROUTE_SANDBOX | ROUTE_LIVE, rest_diff_sandbox,
      "Show what a sandbox has changed since it was made, or against a snapshot", .answer = "Diff",
      .query = "snapshot" },
    { H1_GET, VERB_READ, "/v1/snapshots", 0, rest_list_snapshots, "List snapshots",
      .answer = "SnapshotList" },
    { H1_GET, VERB_READ, "/v1/snapshots/{snapshot}", 0, rest_get_snapshot, "Show a snapshot",
      .answer = "Snapshot" },
    { H1_POST, VERB_FILES, "/v1/snapshots/{snapshot}/verify", ROUTE_LONG, rest_verify_snapshot,
      "Verify the layers of a snapshot", .answer = "SnapshotVerified" },
    { H1_DELETE, VERB_DESTROY, "/v1/snapshots/{snapshot}", 0, rest_delete_snapshot,
      "Delete a snapshot", .status = 204 },
    { .path = NULL },
};
