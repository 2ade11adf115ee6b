/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and forks of sandboxes in E2B's control plane. */
#include "edge/core/snapshots.h"

#include "edge/core/built.h"
#include "edge/e2b/internal.h"
#include "edge/core/json_members.h"
#include "base/clock.h"
#include "base/own.h"

enum { LIST_DEFAULT = 100, LIST_MAX = 100 };

static void write_e2b_snapshot(struct json_writer *w, const void *what)
{
    const struct snapshot_record *r = what;

    json_begin_object(w);
    json_field_text(w, "snapshotID", r->id);
    write_name_list(w, "names", r->name);
    json_end_object(w);
}

/* --- taking a snapshot --- */

static void on_e2b_snapshot_taken(struct call *c, const struct snapshot *s)
{
    call_answer(c, 201, write_e2b_snapshot, &s->record);
}

static void take_e2b_snapshot(struct call *c)
{
    struct snapshot_request q = { 0 };

    if (e2b_read_body(c, snapshot_request_fields, snapshot_request_field_count, &q) &&
        e2b_is_there(c))
        snapshot_take_for(c, &q, on_e2b_snapshot_taken);
}

/* --- the list --- */

struct snapshot_list_request {
    const struct api *api;
    struct str sandbox, name, after;
    uint64_t limit;
};

/* Templates' snapshots are excluded: they are listed as templates. */
static bool is_snapshot_wanted(const struct snapshot_list_request *q,
                               const struct snapshot_record *r)
{
    return !built_of_snapshot(q->api, r->id) &&
           (!q->sandbox.n || str_eq(q->sandbox, str_from(r->sandbox))) &&
           (!q->name.n || str_eq(q->name, str_from(r->name)) || str_eq(q->name, str_from(r->id)));
}

/* Reduces the list to one page, in place. Returns the cursor of the next page (the last id), or
 * NULL. */
static const char *cut_page(const struct snapshot_list_request *q, struct snapshot_list *all)
{
    size_t n = 0;
    bool past = !q->after.n;

    for (size_t i = 0; i < all->n; i++) {
        const struct snapshot_record *r = &all->p[i]->record;

        if (past && is_snapshot_wanted(q, r)) {
            if (n == q->limit) {
                all->n = n;
                return all->p[n - 1]->record.id;
            }
            all->p[n++] = all->p[i];
        }
        past = past || str_eq(q->after, str_from(r->id));
    }
    all->n = n;
    return NULL;
}

static void write_snapshot_page(struct json_writer *w, const void *what)
{
    const struct snapshot_list *page = what;

    json_begin_array(w);
    for (size_t i = 0; i < page->n; i++)
        write_e2b_snapshot(w, &page->p[i]->record);
    json_end_array(w);
}

static void list_e2b_snapshots(struct call *c)
{
    AUTO(snapshot_list_done) struct snapshot_list all = { 0 };
    struct snapshot_list_request q = { .api = c->api, .limit = LIST_DEFAULT };
    const char *next;
    char sandbox[ID_MAX];

    if (call_query(c, "sandboxID", &q.sandbox) < 0 || call_query(c, "name", &q.name) < 0 ||
        call_query(c, "nextToken", &q.after) < 0 ||
        call_query_number(c, "limit", LIST_MAX, &q.limit) < 0)
        return;
    if (id_read("sbx_", q.sandbox, sandbox))
        q.sandbox = str_from(sandbox);
    if (!q.limit)
        q.limit = LIST_DEFAULT;
    snapshot_list_fill(c, &all);
    next = cut_page(&q, &all);
    e2b_answer_page(c, write_snapshot_page, &all, next);
}

/* --- forks --- */

struct e2b_fork_request {
    uint32_t count;
    int64_t timeout_s;
};

static const struct json_field fork_fields[] = {
    { "count", JSON_KIND_UINT, JSON_AT(struct e2b_fork_request, count), .min = 1, .max = FORK_MAX,
      .preset = "1" },
    { "timeout", JSON_KIND_INT, JSON_AT(struct e2b_fork_request, timeout_s), .min = 1,
      .max = E2B_TIMEOUT_MAX_S },
};

struct e2b_forks {
    const struct call *call;
    const struct fork_op *op;
    struct err err; /* reason for forks that were not made */
};

static bool is_made(const struct create_op *made)
{
    return made->record && sandbox_state_usable(made->record->state);
}

static void write_fork(struct json_writer *w, const struct e2b_forks *f,
                       const struct create_op *made)
{
    json_begin_object(w);
    if (is_made(made)) {
        json_key(w, STR("sandbox"));
        e2b_write_made(w, &(struct e2b_shown){ .call = f->call,
                                               .record = made->record,
                                               .expires_ns = made->deadline_ns });
    } else {
        json_field_begin_object(w, "error");
        json_field_int(w, "code", problem_status(f->err.code));
        json_field_text(w, "message", f->err.msg);
        json_end_object(w);
    }
    json_end_object(w);
}

static void write_e2b_forks(struct json_writer *w, const void *what)
{
    const struct e2b_forks *f = what;

    json_begin_array(w);
    for (unsigned i = 0; i < f->op->count; i++)
        write_fork(w, f, &f->op->made[i]);
    json_end_array(w);
}

/* Answers with all forks if at least one was made. */
static void on_e2b_forked(struct fork_op *op, int r, const struct err *e)
{
    struct call *c = call_of_fork(op);
    unsigned n = 0;

    for (unsigned i = 0; i < op->count; i++)
        n += is_made(&op->made[i]);
    if (r < 0 && !n)
        call_fail(c, e);
    else
        call_answer(c, 201, write_e2b_forks,
                    &(struct e2b_forks){ c, op, r < 0 ? *e : (struct err){ .code = ERR_OK } });
    call_unref(c);
}

static void fork_e2b_sandbox(struct call *c)
{
    struct e2b_fork_request q = { 0 };

    if (!e2b_read_body(c, fork_fields, COUNT_OF(fork_fields), &q) || !e2b_is_there(c))
        return;
    /* Environment variables belong to E2B's sandboxes, and the answer reports each fork
     * separately. */
    call_fork(c, &(struct fork_op){ .count = q.count,
                                    .ttl_ns = q.timeout_s * NS_PER_S,
                                    .keep_env = true,
                                    .partly = true,
                                    .done = on_e2b_forked });
}

#define ONE (ROUTE_SANDBOX | ROUTE_LIVE | ROUTE_JSON)

const struct route routes_e2b_snapshots[] = {
    { H1_POST, VERB_CREATE, "/sandboxes/{id}/snapshots", ONE, .handle = take_e2b_snapshot },
    { H1_POST, VERB_CREATE, "/sandboxes/{id}/fork", ONE, .handle = fork_e2b_sandbox },
    { H1_GET, VERB_READ, "/snapshots", 0, .handle = list_e2b_snapshots },
    { .path = NULL },
};
