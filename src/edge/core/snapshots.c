/* /v1/snapshots and what makes them: snapshot, fork, pause and resume of a sandbox. */
#include "api/snapshots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/inside.h"
#include "api/operation.h"
#include "api/route.h"

enum { DIFF_BYTES_MAX = 16 << 20 };

/* --- how one looks --- */

static void put(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static void put_number(struct json_writer *w, const char *key, int64_t value)
{
    json_key(w, str_from(key));
    json_put_int(w, value);
}

void pause_write(struct json_writer *w, int64_t pause_ns)
{
    json_key(w, STR("pause_ms"));
    json_put_double(w, round((double)pause_ns / 1000.0) / 1000.0);
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

static void put_members(struct json_writer *w, const struct snapshot_record *r)
{
    put(w, "snapshot_id", r->id);
    if (r->name[0])
        put(w, "name", r->name);
    put(w, "owner", r->owner);
    put(w, "sandbox_id", r->sandbox);
    put(w, "profile", r->profile);
    put_number(w, "profile_version", r->profile_version);
    if (r->base.n)
        put(w, "image", r->image.p);
    put_number(w, "bytes", r->bytes);
    put_number(w, "entries", r->entries);
    pause_write(w, r->pause_ns);
    put_number(w, "layers", count_words(r->layers));
    json_key(w, STR("labels"));
    json_begin_object(w);
    for (size_t i = 0; i < r->labels.n; i++)
        put(w, r->labels.p[i].key, r->labels.p[i].value);
    json_end_object(w);
    time_write(w, "created_at", r->created_ns);
    time_write(w, "expires_at", r->expires_ns);
}

void snapshot_write(struct json_writer *w, const void *what)
{
    json_begin_object(w);
    put_members(w, what);
    json_end_object(w);
}

/* --- snapshots --- */

static void add(const struct snapshot *s, void *user)
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

static int newest_first(const void *a, const void *b)
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
    snapshots_each(c->api->control, &c->caller, add, ret);
    if (ret->n)
        qsort(ret->p, ret->n, sizeof *ret->p, newest_first);
}

void snapshot_list_done(struct snapshot_list *l)
{
    free(l->p);
}

static void write_all(struct json_writer *w, const void *what)
{
    const struct snapshot_list *all = what;

    json_begin_object(w);
    json_key(w, STR("snapshots"));
    json_begin_array(w);
    for (size_t i = 0; i < all->n; i++)
        snapshot_write(w, &all->p[i]->record);
    json_end_array(w);
    json_end_object(w);
}

static void list(struct call *c)
{
    AUTO(snapshot_list_done) struct snapshot_list all;

    snapshot_list_fill(c, &all);
    call_answer(c, 200, write_all, &all);
}

static const struct snapshot *find(struct call *c)
{
    const struct snapshot *s = snapshot_find(c->api->control, &c->caller, c->params[0]);

    if (!s)
        call_fail_with(c, 404, "not_found", "there is no such snapshot");
    return s;
}

struct shown {
    struct control *control;
    const struct snapshot *snapshot;
};

static void write_shown(struct json_writer *w, const void *what)
{
    const struct shown *s = what;
    const struct json_strs *layers = &s->snapshot->layers;

    json_begin_object(w);
    put_members(w, &s->snapshot->record);
    json_key(w, STR("digests"));
    json_begin_array(w);
    for (size_t i = 0; i < layers->n; i++) {
        const char *measure = layer_measure(s->control, layers->p[i]);

        if (measure[0])
            json_put_str(w, str_from(measure));
        else
            json_put_null(w);
    }
    json_end_array(w);
    json_end_object(w);
}

static void get(struct call *c)
{
    const struct shown s = { c->api->control, find(c) };

    if (s.snapshot)
        call_answer(c, 200, write_shown, &s);
}

/* --- looking whether it is what it was --- */

struct verifying {
    struct call *call;
    struct measure_op op;
    char id[ID_MAX];
    bool under_way;
};

static void verifying_gone(struct call *c)
{
    struct verifying *v = c->state;

    if (!v->under_way)
        return;
    v->under_way = false;
    measure_cancel(&v->op);
    call_unref(c);
}

static void write_verified(struct json_writer *w, const void *what)
{
    const struct verifying *v = what;

    json_begin_object(w);
    put(w, "snapshot_id", v->id);
    put_number(w, "layers", (int64_t)v->op.n);
    put_number(w, "first_time", (int64_t)v->op.first);
    put_number(w, "bytes", (int64_t)v->op.bytes);
    json_end_object(w);
}

static void verified(struct measure_op *op, int r, const struct err *e)
{
    struct verifying *v = container_of(op, struct verifying, op);
    struct call *c = v->call;

    v->under_way = false;
    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 200, write_verified, v);
    call_unref(c);
}

static void verified_so_far(struct measure_op *op, uint64_t bytes)
{
    call_progress(container_of(op, struct verifying, op)->call, "verify", bytes);
}

static void free_state(struct call *c)
{
    free(c->state);
}

static void verify(struct call *c)
{
    const struct snapshot *s = find(c);
    struct verifying *v;

    if (!s)
        return;
    v = calloc(1, sizeof *v);
    if (!v)
        abort();
    v->call = call_ref(c);
    v->under_way = true;
    v->op.at = verified_so_far;
    v->op.done = verified;
    memcpy(v->id, s->record.id, sizeof v->id);
    c->state = v;
    c->on_end = free_state;
    c->on_gone = verifying_gone;
    snapshot_verify(c->api->control, s, &v->op);
}

/* --- forgetting one --- */

struct deletion {
    struct call *call;
    struct unsnap_op op;
};

static void deleted(struct unsnap_op *op, int r, const struct err *e)
{
    call_settle(container_of(op, struct deletion, op)->call, r, e);
}

void snapshot_delete_for(struct call *c, const struct snapshot *s)
{
    struct deletion *d = calloc(1, sizeof *d);

    if (!d)
        abort();
    d->call = call_ref(c);
    d->op.done = deleted;
    c->state = d;
    c->on_end = free_state;
    snapshot_delete(c->api->control, s, &d->op);
}

/* A name that means the newest of several is good enough for reading, not for deleting: whoever
 * repeats the request would delete one after the other. */
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

static void delete (struct call *c)
{
    const struct snapshot *s = find(c);
    struct err e;

    if (s && check_unambiguous(c, s, &e) < 0)
        call_fail(c, &e);
    else if (s)
        snapshot_delete_for(c, s);
}

/* --- taking one --- */

const struct json_field snapshot_request_fields[] = {
    { "name", JSON_KIND_STR, JSON_AT(struct snapshot_request, name), .max = 63,
      .doc = "What to call it; of one name, the newest counts." },
};
const size_t snapshot_request_field_count = COUNT_OF(snapshot_request_fields);

struct taking {
    struct call *call;
    struct snapshot_op op;
    snapshot_taken_fn *answer;
};

static void taken(struct snapshot_op *op, int r, const struct err *e)
{
    struct taking *t = container_of(op, struct taking, op);
    struct call *c = t->call;

    if (r < 0)
        call_fail(c, e);
    else
        t->answer(c, op->snapshot);
    call_unref(c);
}

void snapshot_take_for(struct call *c, const struct snapshot_request *q, snapshot_taken_fn *answer)
{
    struct taking *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    t->call = call_ref(c);
    t->answer = answer;
    t->op = (struct snapshot_op){ .caller = &c->caller, .name = q->name, .done = taken };
    c->state = t;
    c->on_end = free_state;
    sandbox_snapshot(c->sandbox, &t->op);
}

static void answer_taken(struct call *c, const struct snapshot *s)
{
    call_answer(c, 201, snapshot_write, &s->record);
}

static void take(struct call *c)
{
    struct snapshot_request q = { 0 };
    struct err e;

    if (json_bind(c->json, snapshot_request_fields, snapshot_request_field_count, &q, &c->arena,
                  &e) < 0 ||
        (q.name && snapshot_name_check(str_from(q.name), &e) < 0))
        call_fail(c, &e);
    else
        snapshot_take_for(c, &q, answer_taken);
}

/* --- fork --- */

struct fork_request {
    uint32_t count;
    bool keep_env;
};

static const struct json_field fork_fields[] = {
    { "count", JSON_KIND_UINT, JSON_AT(struct fork_request, count), .min = 1, .max = FORK_MAX,
      .preset = "1", .doc = "How many copies." },
    { "keep_env", JSON_KIND_BOOL, JSON_AT(struct fork_request, keep_env),
      .doc = "Give them the variables that the sandbox was created with, credentials among them." },
};
static const size_t fork_field_count = COUNT_OF(fork_fields);

struct forking {
    struct call *call;
    struct fork_op op;
};

static void forking_end(struct call *c)
{
    struct forking *f = c->state;

    if (f->op.made)
        fork_op_done(&f->op);
    free(f);
}

static void write_forks(struct json_writer *w, const void *what)
{
    const struct fork_op *op = what;

    json_begin_object(w);
    json_key(w, STR("sandboxes"));
    json_begin_array(w);
    for (unsigned i = 0; i < op->next_; i++)
        if (op->made[i].record)
            sandbox_write(w, &(struct sandbox_shown){ .record = op->made[i].record,
                                                      .expires_ns = op->made[i].expires_ns,
                                                      .deadline_ns = op->made[i].deadline_ns });
    json_end_array(w);
    pause_write(w, op->pause_ns);
    json_end_object(w);
}

static void forked(struct fork_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct forking, op)->call;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 201, write_forks, op);
    call_unref(c);
}

static void fork_it(struct call *c)
{
    struct fork_request q = { 0 };
    struct forking *f;
    struct err e;

    if (json_bind(c->json, fork_fields, fork_field_count, &q, &c->arena, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    f = calloc(1, sizeof *f);
    if (!f)
        abort();
    f->call = call_ref(c);
    f->op = (struct fork_op){
        .caller = &c->caller, .count = q.count, .keep_env = q.keep_env, .done = forked
    };
    c->state = f;
    c->on_end = forking_end;
    sandbox_fork(c->sandbox, &f->op);
}

/* --- pause and resume --- */

static void held(struct sandbox_op *op, int r, const struct err *e)
{
    struct call *c = call_of_op(op);
    const struct sandbox_view v = sandbox_view(c->sandbox);
    const struct sandbox_shown s = { .record = v.record,
                                     .expires_ns = v.expires_ns,
                                     .deadline_ns = v.deadline_ns,
                                     .machine = c->caller.admin };

    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 200, sandbox_write, &s);
    call_unref(c);
}

static void pause_it(struct call *c)
{
    sandbox_pause(c->sandbox, &c->caller.actor, call_sandbox_op(c, held));
}

static void stop_it(struct call *c)
{
    sandbox_stop(c->sandbox, &c->caller.actor, call_sandbox_op(c, held));
}

static void resume_it(struct call *c)
{
    sandbox_resume(c->sandbox, &c->caller.actor, call_sandbox_op(c, held));
}

/* --- diff --- */

struct diffing {
    struct call *call;
    struct diff_op op;
    char against[ID_MAX + 64];
    char *records;
    size_t n;
};

static void diffing_end(struct call *c)
{
    struct diffing *d = c->state;

    drop_fd(&d->op.file);
    free(d->records);
    free(d);
}

/* A letter for the change, one for the kind, the path. */
static void write_change(struct json_writer *w, const char *record)
{
    static const char *const kinds[] = { "d dir", "f file", "l link", "o other" };

    json_begin_object(w);
    put(w, "change", record[0] == 'A' ? "added" : record[0] == 'C' ? "changed" : "deleted");
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (kinds[i][0] == record[1])
            put(w, "kind", kinds[i] + 2);
    json_key(w, STR("path"));
    json_put_lossy(w, str_from(record + 2));
    json_end_object(w);
}

static void write_changes(struct json_writer *w, const void *what)
{
    const struct diffing *d = what;
    size_t at = 0;

    json_begin_object(w);
    json_key(w, STR("changes"));
    json_begin_array(w);
    while (at + 2 < d->n) {
        write_change(w, d->records + at);
        at += strlen(d->records + at) + 1;
    }
    json_end_array(w);
    json_end_object(w);
}

static int read_records(struct diffing *d, struct err *e)
{
    off_t size = lseek(d->op.file, 0, SEEK_END);

    if (size < 0 || size > DIFF_BYTES_MAX)
        return err_set(e, ERR_TOO_BIG, "the names of what has changed take more than %d MiB",
                       DIFF_BYTES_MAX >> 20);
    d->records = calloc(1, (size_t)size + 1); /* ended, whatever is in it */
    if (!d->records)
        abort();
    if (pread(d->op.file, d->records, (size_t)size, 0) != size)
        return err_sys(e, "reading what has changed");
    d->n = (size_t)size;
    return 0;
}

static void compared(struct diff_op *op, int r, const struct err *e)
{
    struct diffing *d = container_of(op, struct diffing, op);
    struct call *c = d->call;
    struct err why;

    if (r >= 0) {
        r = read_records(d, &why);
        e = &why;
    }
    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 200, write_changes, d);
    call_unref(c);
}

static void diff(struct call *c)
{
    struct diffing *d = calloc(1, sizeof *d);
    struct str snapshot = { NULL, 0 };

    if (!d)
        abort();
    d->op = (struct diff_op){ .caller = &c->caller, .done = compared, .file = -1 };
    c->state = d;
    c->on_end = diffing_end;
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
      take, "Keep what a sandbox has written", snapshot_request_fields,
      &snapshot_request_field_count, "Snapshot", .status = 201 },
    { H1_POST, VERB_CREATE, "/v1/sandboxes/{id}/fork", ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE,
      fork_it, "Create sandboxes that begin with what this one has written", fork_fields,
      &fork_field_count, "Forks", .status = 201 },
    { H1_POST, VERB_EXTEND, "/v1/sandboxes/{id}/pause", ROUTE_SANDBOX | ROUTE_LIVE, pause_it,
      "Let a sandbox stand still, with its files safe", .answer = "Sandbox" },
    { H1_POST, VERB_EXTEND, "/v1/sandboxes/{id}/stop", ROUTE_SANDBOX | ROUTE_LIVE, stop_it,
      "End what runs in a sandbox, and keep its files until it is resumed", .answer = "Sandbox" },
    { H1_POST, VERB_EXTEND, "/v1/sandboxes/{id}/resume", ROUTE_SANDBOX | ROUTE_LIVE, resume_it,
      "Let a paused sandbox go on", .answer = "Sandbox" },
    { H1_GET, VERB_FILES, "/v1/sandboxes/{id}/diff", ROUTE_SANDBOX | ROUTE_LIVE, diff,
      "Show what a sandbox has changed since it was made, or against a snapshot", .answer = "Diff",
      .query = "snapshot" },
    { H1_GET, VERB_READ, "/v1/snapshots", 0, list, "List snapshots", .answer = "SnapshotList" },
    { H1_GET, VERB_READ, "/v1/snapshots/{snapshot}", 0, get, "Show a snapshot",
      .answer = "Snapshot" },
    { H1_POST, VERB_FILES, "/v1/snapshots/{snapshot}/verify", ROUTE_LONG, verify,
      "Look whether a snapshot's layers are what they were", .answer = "SnapshotVerified" },
    { H1_DELETE, VERB_DESTROY, "/v1/snapshots/{snapshot}", 0, delete, "Forget a snapshot",
      .status = 204 },
    { .path = NULL },
};
