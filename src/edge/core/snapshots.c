/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/snapshots, and snapshot, fork, pause, stop, resume and diff of a sandbox. */
#include "edge/core/snapshots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "edge/core/operation.h"
#include "edge/core/route.h"

/* --- JSON --- */

double pause_ms(int64_t pause_ns)
{
    return round((double)pause_ns / 1000.0) / 1000.0;
}

struct snapshot_answer {
    int64_t layers;
    const struct snapshot_record *record;
    const char *image; /* NULL: none */
    double pause_ms;
    bool by_token;            /* a token took it, not its owner's user */
    bool detailed;            /* has digests: … */
    struct json_strs digests; /* … of its layers; NULL: unknown */
};

#define AT(member) JSON_AT(struct snapshot_answer, member)
#define RECORD(member)                                                                             \
    .via = offsetof(struct snapshot_answer, record), JSON_AT(struct snapshot_record, member)

static const struct json_field snapshot_answer_fields[] = {
    { "snapshot_id", JSON_KIND_CHARS, RECORD(id), .required = true },
    { "name", JSON_KIND_CHARS, RECORD(name), .optional = true },
    { "owner", JSON_KIND_CHARS, RECORD(owner), .required = true },
    { "sandbox_id", JSON_KIND_CHARS, RECORD(sandbox), .required = true },
    { "profile", JSON_KIND_CHARS, RECORD(profile), .required = true },
    { "profile_version", JSON_KIND_INT, RECORD(profile_version), .required = true },
    { "image", JSON_KIND_TEXT, AT(image) },
    { "bytes", JSON_KIND_INT, RECORD(bytes), .required = true },
    { "entries", JSON_KIND_INT, RECORD(entries), .required = true },
    { "pause_ms", JSON_KIND_DOUBLE, AT(pause_ms), .required = true },
    { "layers", JSON_KIND_INT, AT(layers), .required = true },
    { "digests", JSON_KIND_TEXTS, AT(digests), .nullable = true,
      .seen = offsetof(struct snapshot_answer, detailed) },
    { "labels", JSON_KIND_MAP, RECORD(labels), .required = true },
    { "made_by_token", JSON_KIND_BOOL, AT(by_token), .required = true },
    { "created_at", JSON_KIND_TIME, RECORD(created_ns), .required = true },
    { "expires_at", JSON_KIND_TIME, RECORD(expires_ns) },
};
static const struct json_shape snapshot_answer = { "Snapshot",
                                                   JSON_FIELDS(snapshot_answer_fields) };

static struct snapshot_answer answer_of_snapshot(const struct snapshot_record *r)
{
    struct snapshot_answer a = { .record = r,
                                 .image = r->base.n ? r->image.p : NULL,
                                 .pause_ms = pause_ms(r->pause_ns),
                                 .by_token = r->family[0] };

    for (struct str rest = r->layers, word; rest.n; a.layers++)
        rest = str_cut(rest, ' ', &word);
    return a;
}

void snapshot_write(struct json_writer *w, const void *what)
{
    const struct snapshot_answer a = answer_of_snapshot(what);

    json_put_shape(w, &snapshot_answer, &a);
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

/* Leaves the snapshots of this name and owner, in their order. */
static void select_named_snapshots(struct snapshot_list *l, struct str name, const char *owner)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        if (str_eq(name, str_from(l->p[i]->record.name)) &&
            str_eq(str_from(owner), str_from(l->p[i]->record.owner)))
            l->p[n++] = l->p[i];
    l->n = n;
}

static void write_snapshots(struct json_writer *w, const void *list)
{
    const struct snapshot_list *all = list;

    for (size_t i = 0; i < all->n; i++)
        snapshot_write(w, &all->p[i]->record);
}

static const struct json_shape snapshot_list = { "SnapshotList", JSON_LIST("snapshots", "Snapshot",
                                                                           write_snapshots) };

static void rest_list_snapshots(struct call *c)
{
    AUTO(snapshot_list_done) struct snapshot_list all = { 0 };
    struct str name;
    int named = call_query(c, "name", &name);

    if (named < 0)
        return;
    snapshot_list_fill(c, &all);
    if (named)
        select_named_snapshots(&all, name, c->caller.owner);
    call_answer_as(c, 200, &snapshot_list, &all);
}

const struct snapshot *snapshot_of_call(struct call *c)
{
    const struct snapshot *s = snapshot_find(c->api->control, &c->caller, c->params[0]);

    if (!s)
        call_fail_missing(c, "snapshot", c->params[0]);
    return s;
}

static void rest_get_snapshot(struct call *c)
{
    const struct snapshot *s = snapshot_of_call(c);
    struct snapshot_answer a;
    const char **digests;

    if (!s)
        return;
    digests = call_alloc(c, s->layers.n, sizeof *digests);
    for (size_t i = 0; i < s->layers.n; i++) {
        const char *digest = layer_digest(c->api->control, s->layers.p[i]);

        digests[i] = digest[0] ? digest : NULL;
    }
    a = answer_of_snapshot(&s->record);
    a.detailed = true;
    a.digests = (struct json_strs){ digests, s->layers.n };
    call_answer_as(c, 200, &snapshot_answer, &a);
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

#define VERIFIED(member) JSON_AT(struct snapshot_verification, member)

static const struct json_field verified_fields[] = {
    { "snapshot_id", JSON_KIND_CHARS, VERIFIED(id), .required = true },
    { "layers", JSON_KIND_UINT, VERIFIED(op.n), .required = true },
    { "first_time", JSON_KIND_UINT, VERIFIED(op.first), .required = true },
    { "bytes", JSON_KIND_UINT, VERIFIED(op.bytes), .required = true },
};
static const struct json_shape verified_answer = { "SnapshotVerified",
                                                   JSON_FIELDS(verified_fields) };

static void on_snapshot_verified(struct digest_op *op, int r, const struct err *e)
{
    struct snapshot_verification *v = container_of(op, struct snapshot_verification, op);

    v->under_way = false;
    call_settle_as(v->call, r, e, 200, &verified_answer, v);
}

static void on_verify_progress(struct digest_op *op, uint64_t bytes)
{
    call_progress(container_of(op, struct snapshot_verification, op)->call, "verify", bytes);
}

static void rest_verify_snapshot(struct call *c)
{
    const struct snapshot *s = snapshot_of_call(c);
    struct snapshot_verification *v;

    if (!s)
        return;
    v = call_state(c, sizeof *v, NULL);
    v->call = call_ref(c);
    v->under_way = true;
    v->op = (struct digest_op){ .caller = &c->caller,
                                .at = on_verify_progress,
                                .done = on_snapshot_verified };
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
    select_named_snapshots(&all, c->params[0], s->record.owner);
    for (; n < all.n && n < 4; n++)
        buf_addf(&ids, "%s%s", ids.n ? ", " : "", all.p[n]->record.id);
    n = all.n;
    if (n < 2)
        return 0;
    return err_set(e, ERR_CONFLICT, "%zu snapshots have this name: " STR_FMT "%s; delete by id", n,
                   STR_ARG(buf_str(&ids)), n > 4 ? " and more" : "");
}

static void rest_delete_snapshot(struct call *c)
{
    const struct snapshot *s = snapshot_of_call(c);
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

    if (r < 0)
        call_fail(t->call, e);
    else
        t->answer(t->call, op->snapshot);
    call_unref(t->call);
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

    if (!call_read(c, &q))
        return;
    if (q.name && snapshot_name_check(str_from(q.name), &e) < 0)
        call_fail(c, &e);
    else
        snapshot_take_for(c, &q, answer_with_snapshot);
}

/* --- fork --- */

struct fork_body {
    uint32_t count;
    bool keep_env;
    const char *name;
};

static const struct json_field fork_fields[] = {
    { "count", JSON_KIND_UINT, JSON_AT(struct fork_body, count), .min = 1, .max = FORK_MAX,
      .preset = "1", .doc = "Number of copies." },
    { "keep_env", JSON_KIND_BOOL, JSON_AT(struct fork_body, keep_env),
      .doc = "Copy the environment variables that the sandbox was created with, including "
             "credentials." },
    { "name", JSON_KIND_STR, JSON_AT(struct fork_body, name), .min = 1, .max = SANDBOX_NAME_MAX - 1,
      .doc = "Name of the copy, if it is one." },
};

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

static void write_forks(struct json_writer *w, const void *forked)
{
    const struct fork_op *op = forked;

    for (unsigned i = 0; i < op->next_; i++)
        if (op->made[i].record)
            sandbox_write(w, &(struct sandbox_json){ .record = op->made[i].record,
                                                     .expires_ns = op->made[i].expires_ns,
                                                     .deadline_ns = op->made[i].deadline_ns });
}

static void write_fork_pause(struct json_writer *w, const char *name, const void *forked)
{
    const struct fork_op *op = forked;

    json_field_double(w, name, pause_ms(op->pause_ns));
}

static const struct json_field forks_fields[] = {
    { "sandboxes", JSON_KIND_OBJECTS, .required = true, .schema = "Sandbox", .items = write_forks },
    { "pause_ms", JSON_KIND_DOUBLE, .required = true, .write = write_fork_pause },
};
static const struct json_shape forks_answer = { "Forks", JSON_FIELDS(forks_fields) };

static void on_sandbox_forked(struct fork_op *op, int r, const struct err *e)
{
    call_settle_as(call_of_fork(op), r, e, 201, &forks_answer, op);
}

static void rest_fork_sandbox(struct call *c)
{
    struct fork_body q = { 0 };
    struct err e = { 0 };

    if (!call_read(c, &q))
        return;
    if (q.name && q.count > 1)
        (void)err_set(&e, ERR_INVALID, "name: %u copies cannot share a name; leave it out",
                      q.count);
    else if (q.name)
        (void)sandbox_name_check(str_from(q.name), &e);
    if (e.code)
        call_fail(c, &e);
    else
        call_fork(c, &(struct fork_op){ .count = q.count,
                                        .keep_env = q.keep_env,
                                        .name = q.name,
                                        .done = on_sandbox_forked });
}

/* --- pause and resume --- */

static void on_pause_state_changed(struct sandbox_op *op, int r, const struct err *e)
{
    struct call *c = call_of_op(op);
    const struct sandbox_view v = sandbox_view(c->sandbox);
    const struct sandbox_json s = { .record = v.record,
                                    .expires_ns = v.expires_ns,
                                    .deadline_ns = v.deadline_ns };

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

struct change_answer {
    const char *change, *kind, *path;
};

static const char *const change_names[] = { "added", "changed", "deleted", NULL };
static const char *const kind_names[] = { "dir", "file", "link", "other", NULL };

static const struct json_field change_fields[] = {
    { "change", JSON_KIND_TEXT, JSON_AT(struct change_answer, change), .required = true,
      .names = change_names },
    { "kind", JSON_KIND_TEXT, JSON_AT(struct change_answer, kind), .names = kind_names },
    { "path", JSON_KIND_TEXT, JSON_AT(struct change_answer, path), .required = true },
};
static const struct json_shape change_answer = { "Change", JSON_FIELDS(change_fields) };

/* A record: a letter for the change, the first letter of the kind, the path. */
static void write_diff_changes(struct json_writer *w, const void *diff)
{
    const struct diff_call *d = diff;

    for (size_t at = 0; at + 2 < d->n; at += strlen(d->records + at) + 1) {
        const char *record = d->records + at;
        struct change_answer a = { .path = record + 2 };

        a.change = change_names[record[0] == 'A' ? 0 : record[0] == 'C' ? 1 : 2];
        for (size_t i = 0; kind_names[i]; i++)
            if (kind_names[i][0] == record[1])
                a.kind = kind_names[i];
        json_put_shape(w, &change_answer, &a);
    }
}

static const struct json_shape diff_answer = { "Diff",
                                               JSON_LIST("changes", "Change", write_diff_changes) };

static int read_diff_records(struct diff_call *d, struct err *e)
{
    off_t size = lseek(d->op.file, 0, SEEK_END);

    if (size < 0 || size > DIFF_BYTES_MAX)
        return err_set(e, ERR_BUG, "the list of changed paths has an invalid size");
    d->records = call_alloc(d->call, 1, (size_t)size + 1); /* NUL-terminated in any case */
    if (pread(d->op.file, d->records, (size_t)size, 0) != size)
        return err_sys(e, "reading the list of changes");
    d->n = (size_t)size;
    return 0;
}

static void on_diff_done(struct diff_op *op, int r, const struct err *e)
{
    struct diff_call *d = container_of(op, struct diff_call, op);
    struct err why;

    if (r >= 0) {
        r = read_diff_records(d, &why);
        e = &why;
    }
    call_settle_as(d->call, r, e, 200, &diff_answer, d);
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
        call_fail_missing(c, "snapshot", snapshot);
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
      rest_fork_sandbox, "Create copies of a sandbox", ROUTE_FIELDS(fork_fields), .answer = "Forks",
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
      .answer = "SnapshotList", .query = "name" },
    { H1_GET, VERB_READ, "/v1/snapshots/{snapshot}", 0, rest_get_snapshot, "Show a snapshot",
      .answer = "Snapshot" },
    { H1_POST, VERB_FILES, "/v1/snapshots/{snapshot}/verify", ROUTE_LONG, rest_verify_snapshot,
      "Verify the layers of a snapshot", .answer = "SnapshotVerified" },
    { H1_DELETE, VERB_DESTROY, "/v1/snapshots/{snapshot}", 0, rest_delete_snapshot,
      "Delete a snapshot", .status = 204 },
    { .path = NULL },
};

const struct json_shape *const answers_snapshots[] = {
    &snapshot_answer, &snapshot_list, &verified_answer, &forks_answer, &change_answer,
    &diff_answer,     NULL,
};
