/* SPDX-License-Identifier: Apache-2.0 */
/* Export and import of snapshots as files: /v1/snapshots/{snapshot}/export and
 * /v1/snapshots/import. */
#include "edge/core/internal.h"
#include "edge/core/operation.h"
#include "base/own.h"
#include "edge/rest/routes.h"
#include "edge/core/shares.h"
#include "edge/core/snapshots.h"

/* --- export --- */

struct snapshot_export_call {
    struct call *call;
    struct export_op op;
    struct quota_hold counted;
    char id[ID_MAX];
};

static void release_export_call(void *state)
{
    struct snapshot_export_call *x = state;

    drop_fd(&x->op.file);
    quota_drop(&x->counted);
}

/* The file counts until the client has received it, or has left. */
static int on_export_grew(struct export_op *op, uint64_t bytes, struct err *e)
{
    struct snapshot_export_call *x = container_of(op, struct snapshot_export_call, op);
    const struct call *c = x->call;

    return bytes <= x->counted.n ? 0
                                 : shares_take_upload(c->api, c->caller.owner, c->caller.family,
                                                      bytes - x->counted.n, &x->counted, e);
}

static void on_snapshot_exported(struct export_op *op, int r, const struct err *e)
{
    static const struct h1_field fields[] = {
        { STR("Content-Type"), STR("application/zstd") },
        { STR("Cache-Control"), STR("no-store") },
        { STR("X-Content-Type-Options"), STR("nosniff") },
    };
    struct call *c = container_of(op, struct snapshot_export_call, op)->call;

    if (r < 0)
        call_fail(c, e);
    else if (c->x)
        call_answer_file(c, op->file, fields, COUNT_OF(fields));
    call_unref(c);
}

static void rest_export_snapshot(struct call *c)
{
    struct snapshot_export_call *x;
    const struct snapshot *s;
    bool without = false;

    if (call_query_bool(c, "without_image", &without) < 0)
        return;
    s = snapshot_of_call(c);
    if (!s)
        return;
    x = call_state(c, sizeof *x, release_export_call);
    x->call = call_ref(c);
    memcpy(x->id, s->record.id, sizeof x->id);
    x->op = (struct export_op){ .caller = &c->caller,
                                .id = x->id,
                                .without_base = without,
                                .grew = on_export_grew,
                                .file = -1,
                                .done = on_snapshot_exported };
    snapshot_export(c->api->control, s, &x->op);
}

/* --- import --- */

struct snapshot_import_call {
    struct call *call;
    struct import_op op;
    uint64_t size;
    struct quota_hold counted;
    bool refused;
};

static void release_import_call(void *state)
{
    struct snapshot_import_call *i = state;

    drop_fd(&i->op.file);
    quota_drop(&i->counted);
}

static void on_snapshot_imported(struct import_op *op, int r, const struct err *e)
{
    call_settle_with(container_of(op, struct snapshot_import_call, op)->call, r, e, 201,
                     snapshot_write, r < 0 ? NULL : &op->snapshot->record);
}

static void on_import_body(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct snapshot_import_call *i = c->state;
    struct err e;

    if (i->refused)
        return;
    if (!data.n) {
        i->call = call_ref(c);
        snapshot_import(c->api->control, &i->op);
    } else if (shares_take_upload(c->api, c->caller.owner, c->caller.family, data.n, &i->counted,
                                  &e) < 0 ||
               store_body_piece(i->op.file, &i->size, c->api->config, data, &e) < 0) {
        i->refused = true;
        call_fail(c, &e);
    }
}

static void rest_import_snapshot(struct call *c)
{
    struct snapshot_import_call *i = call_state(c, sizeof *i, release_import_call);
    struct str name = { NULL, 0 };
    struct err e;

    i->op = (struct import_op){ .caller = &c->caller, .file = -1, .done = on_snapshot_imported };
    if (call_query(c, "name", &name) < 0)
        return;
    if (name.n >= sizeof((struct snapshot_record *)NULL)->name) {
        call_fail_with(c, 400, "invalid", "name: longer than 63 bytes");
        return;
    }
    if (snapshot_name_check(name, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    i->op.name = name.n ? arena_dup(&c->own, name) : NULL;
    i->op.file = control_scratch(c->api->control, &e);
    if (i->op.file < 0)
        call_fail(c, &e);
    else
        http_stream(c->x, on_import_body);
}

const struct route routes_snapshot_files[] = {
    { H1_GET, VERB_FILES, "/v1/snapshots/{snapshot}/export", ROUTE_LONG, rest_export_snapshot,
      "Export a snapshot as a file", .query = "without_image" },
    { H1_POST, VERB_CREATE, "/v1/snapshots/import", ROUTE_STREAM | ROUTE_LONG, rest_import_snapshot,
      "Import a snapshot from a file", .answer = "Snapshot", .query = "name", .status = 201 },
    { .path = NULL },
};
