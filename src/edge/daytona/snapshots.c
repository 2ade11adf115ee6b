/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots in Daytona's control plane, the sources of sandboxes: profiles, which are visible to
 * all callers, and snapshots of sandboxes. */
#include "edge/core/snapshots.h"

#include "base/own.h"
#include "edge/daytona/internal.h"
#include "edge/core/template.h"

enum { PAGE_DEFAULT = 100, PAGE_MAX = 200, PAGES_MAX = 10000 };

/* --- snapshots as JSON --- */

static void write_snapshot_common(struct json_writer *w, const struct profile *p)
{
    json_field_text(w, "state", "active");
    json_field_double(w, "cpu", p ? profile_cpu_milli(p) / 1000.0 : 0);
    json_field_int(w, "gpu", 0);
    json_field_double(w, "mem", p ? p->resources.memory_mb / 1024.0 : 0);
    json_field_double(w, "disk", p ? p->resources.disk_mb / 1024.0 : 0);
    json_field_null(w, "entrypoint");
    json_field_null(w, "errorReason");
    json_field_null(w, "lastUsedAt");
    json_field_text(w, "sandboxClass", "container");
}

/* A profile has no creation time, but clients require one. */
static void write_profile_snapshot(struct json_writer *w, const void *what)
{
    const struct profile *p = what;
    const char *name = template_profile_name(p->id);

    json_begin_object(w);
    json_field_text(w, "id", name);
    json_field_text(w, "name", name);
    json_field_bool(w, "general", true);
    json_field_null(w, "size");
    json_field_null(w, "sourceSandboxId");
    json_field_text(w, "createdAt", "1970-01-01T00:00:00Z");
    json_field_text(w, "updatedAt", "1970-01-01T00:00:00Z");
    write_snapshot_common(w, p);
    json_end_object(w);
}

static void write_snapshot(struct json_writer *w, const void *what)
{
    const struct snapshot_record *r = what;

    json_begin_object(w);
    json_field_text(w, "id", r->id);
    json_field_text(w, "name", r->name[0] ? r->name : r->id);
    json_field_text(w, "organizationId", r->owner);
    json_field_bool(w, "general", false);
    json_field_double(w, "size", (double)r->bytes / (1 << 30));
    json_field_text(w, "sourceSandboxId", r->sandbox);
    time_write(w, "createdAt", r->created_ns);
    time_write(w, "updatedAt", r->created_ns);
    write_snapshot_common(w, NULL);
    json_end_object(w);
}

/* --- list --- */

struct snapshot_page {
    const struct catalog *catalog;
    struct snapshot_list all;
    size_t profiles, from, limit;
    struct str source;
};

/* Whether entry i is the highest version of its profile: the next entry has another name. */
static bool is_highest_version(const struct catalog *all, size_t i)
{
    return all->entries[i].profile &&
           (i + 1 == all->n || strcmp(all->entries[i].name.id, all->entries[i + 1].name.id) != 0);
}

static bool is_on_page(const struct snapshot_page *p, size_t i)
{
    return i >= p->from && i < p->from + p->limit;
}

static void write_items(struct json_writer *w, struct snapshot_page *p)
{
    size_t n = 0;

    for (size_t i = 0; i < p->all.n; i++) {
        if (p->source.n && !str_eq(p->source, str_from(p->all.p[i]->record.sandbox)))
            continue;
        if (is_on_page(p, n++))
            write_snapshot(w, &p->all.p[i]->record);
    }
    for (size_t i = 0; !p->source.n && i < p->catalog->n; i++)
        if (is_highest_version(p->catalog, i) && is_on_page(p, n++))
            write_profile_snapshot(w, p->catalog->entries[i].profile);
    p->profiles = n;
}

static void answer_daytona_page(struct call *c, struct snapshot_page *p)
{
    struct buf text AUTO(buf_done) = BUF_INIT(CALL_ANSWER_MAX);
    struct json_writer w;

    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_field_begin_array(&w, "items");
    write_items(&w, p);
    json_end_array(&w);
    json_field_int(&w, "total", (int64_t)p->profiles);
    json_field_int(&w, "page", (int64_t)(p->from / p->limit) + 1);
    json_field_int(&w, "totalPages", (int64_t)((p->profiles + p->limit - 1) / p->limit));
    json_end_object(&w);
    call_answer_written(c, &w, &text, NULL);
}

static void list_daytona_snapshots(struct call *c)
{
    struct snapshot_page p = { .catalog = control_catalog(c->api->control) };
    uint64_t page = 1, limit = PAGE_DEFAULT;

    if (call_query_number(c, "page", PAGES_MAX, &page) < 0 ||
        call_query_number(c, "limit", PAGE_MAX, &limit) < 0 ||
        call_query(c, "sourceSandboxId", &p.source) < 0)
        return;
    p.limit = limit ? limit : PAGE_DEFAULT;
    p.from = (page ? page - 1 : 0) * p.limit;
    snapshot_list_fill(c, &p.all);
    answer_daytona_page(c, &p);
    snapshot_list_done(&p.all);
}

/* --- one snapshot --- */

static const struct snapshot *find_daytona_snapshot(struct call *c)
{
    const struct snapshot *s = snapshot_find(c->api->control, &c->caller, c->params[0]);

    if (!s)
        call_fail_missing(c, "snapshot", c->params[0]);
    return s;
}

static void activate_snapshot(struct call *c)
{
    const struct snapshot *s = find_daytona_snapshot(c);

    if (s)
        call_answer(c, 200, write_snapshot, &s->record);
}

static void show_daytona_snapshot(struct call *c)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    const char *name = arena_dup(&c->own, c->params[0]);

    if (strlen(name) < TEMPLATE_NAME_MAX &&
        catalog_find(control_catalog(c->api->control), str_from(template_profile_id(c, name)), &p,
                     NULL) >= 0)
        call_answer(c, 200, write_profile_snapshot, p);
    else
        activate_snapshot(c);
}

static void remove_daytona_snapshot(struct call *c)
{
    const struct snapshot *s = find_daytona_snapshot(c);

    if (s)
        snapshot_delete_for(c, s);
}

/* --- snapshots and forks of a sandbox --- */

static void on_daytona_snapshot_taken(struct call *c, const struct snapshot *s)
{
    daytona_answer_sandbox(c);
}

static void take_daytona_snapshot(struct call *c)
{
    struct snapshot_request q = { 0 };

    if (daytona_read_body(c, snapshot_request_fields, snapshot_request_field_count, &q))
        snapshot_take_for(c, &q, on_daytona_snapshot_taken);
}

static void on_daytona_forked(struct fork_op *op, int r, const struct err *e)
{
    struct call *c = call_of_fork(op);
    struct daytona_shown s = { .call = c };

    if (r >= 0)
        s.record = op->made[0].record;
    if (!c->x)
        ; /* the client is gone */
    else if (r < 0)
        call_fail(c, e);
    else if (!s.record ||
             !control_find_now(c->api->control, &c->caller, str_from(s.record->id), &s.sandbox))
        call_fail_with(c, 409, "conflict", "the fork was destroyed right after its creation");
    else
        call_answer(c, 200, daytona_write_sandbox, &s);
    if (s.sandbox)
        sandbox_unref(s.sandbox);
    call_unref(c);
}

static void fork_daytona_sandbox(struct call *c)
{
    call_fork(c, &(struct fork_op){ .count = 1,
                                    .keep_env = true, /* variables belong to Daytona's sandboxes */
                                    .done = on_daytona_forked });
}

const struct route routes_daytona_snapshots[] = {
    { H1_GET, VERB_READ, DAYTONA "/snapshots", 0, .handle = list_daytona_snapshots },
    { H1_GET, VERB_READ, DAYTONA "/snapshots/{snapshot}", 0, .handle = show_daytona_snapshot },
    { H1_DELETE, VERB_DESTROY, DAYTONA "/snapshots/{snapshot}", 0,
      .handle = remove_daytona_snapshot },
    { H1_POST, VERB_READ, DAYTONA "/snapshots/{snapshot}/activate", 0,
      .handle = activate_snapshot },
    { H1_POST, VERB_CREATE, DAYTONA_ONE "/snapshot", DAYTONA_LIVE | ROUTE_JSON,
      .handle = take_daytona_snapshot },
    { H1_POST, VERB_CREATE, DAYTONA_ONE "/fork", DAYTONA_LIVE | ROUTE_JSON,
      .handle = fork_daytona_sandbox },
    { .path = NULL },
};
