/* Snapshots as files: /v1/snapshots/{snapshot}/export and /v1/snapshots/import. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/inside.h"
#include "api/keep_body.h"
#include "api/route.h"
#include "api/shares.h"
#include "control/snapshots.h"

enum { PIECE = 256 << 10 };

/* --- out --- */

struct exporting {
    struct call *call;
    struct export_op op;
    char id[ID_MAX];
};

static void exporting_end(struct call *c)
{
    struct exporting *x = c->state;

    drop_fd(&x->op.file);
    free(x);
}

/* As much as the client takes at once. */
static void send_some(struct http_exchange *x)
{
    static char piece[PIECE];
    struct call *c = http_state(x);
    const struct exporting *s = c->state;
    int r = 0;

    while (r == 0) {
        ssize_t n = read(s->op.file, piece, sizeof piece);

        if (n <= 0) { /* cut, if it is less than was promised */
            http_end(call_take_exchange(c));
            return;
        }
        r = http_write(x, (struct str){ piece, (size_t)n }, NULL);
    }
    if (r < 0)
        http_cut(call_take_exchange(c));
}

static void send_file(struct exporting *x)
{
    static const struct h1_field fields[] = {
        { STR("Content-Type"), STR("application/zstd") },
        { STR("Cache-Control"), STR("no-store") },
        { STR("X-Content-Type-Options"), STR("nosniff") },
    };
    struct call *c = x->call;
    struct stat st;
    struct err e;
    int r = fstat(x->op.file, &st) < 0 || lseek(x->op.file, 0, SEEK_SET) < 0
                ? err_sys(&e, "reading the file")
                : http_begin(c->x, 200, fields, COUNT_OF(fields), st.st_size, &e);

    if (r < 0) {
        call_fail(c, &e);
    } else if (!call_end_head(c)) {
        http_on_drain(c->x, send_some);
        send_some(c->x);
    }
}

static void exported(struct export_op *op, int r, const struct err *e)
{
    struct exporting *x = container_of(op, struct exporting, op);
    struct call *c = x->call;

    if (r < 0)
        call_fail(c, e);
    else if (c->x)
        send_file(x);
    call_unref(c);
}

static void export(struct call *c)
{
    const struct snapshot *s = snapshot_find(c->api->control, &c->caller, c->params[0]);
    struct exporting *x;
    bool without = false;

    if (call_query_bool(c, "without_image", &without) < 0)
        return;
    if (!s) {
        call_fail_with(c, 404, "not_found", "there is no such snapshot");
        return;
    }
    x = calloc(1, sizeof *x);
    if (!x)
        abort();
    x->call = call_ref(c);
    memcpy(x->id, s->record.id, sizeof x->id);
    x->op = (struct export_op){
        .caller = &c->caller, .id = x->id, .without_base = without, .file = -1, .done = exported
    };
    c->state = x;
    c->on_end = exporting_end;
    snapshot_export(c->api->control, s, &x->op);
}

/* --- in --- */

struct importing {
    struct call *call;
    struct import_op op;
    uint64_t size;
    struct quota_hold counted;
    bool refused;
};

static void importing_end(struct call *c)
{
    struct importing *i = c->state;

    drop_fd(&i->op.file);
    quota_drop(&i->counted);
    free(i);
}

static void imported(struct import_op *op, int r, const struct err *e)
{
    struct call *c = container_of(op, struct importing, op)->call;

    if (r < 0)
        call_fail(c, e);
    else
        call_answer(c, 201, snapshot_write, &op->snapshot->record);
    call_unref(c);
}

static void on_body(struct http_exchange *x, struct str data)
{
    struct call *c = http_state(x);
    struct importing *i = c->state;
    struct err e;

    if (i->refused)
        return;
    if (!data.n) {
        i->call = call_ref(c);
        snapshot_import(c->api->control, &i->op);
    } else if (shares_take_upload(c->api, c->caller.owner, c->caller.family, data.n, &i->counted,
                                  &e) < 0 ||
               keep_body(i->op.file, &i->size, c->api->config, data, &e) < 0) {
        i->refused = true;
        call_fail(c, &e);
    }
}

static void import(struct call *c)
{
    struct importing *i = calloc(1, sizeof *i);
    struct str name = { NULL, 0 };
    struct err e;

    if (!i)
        abort();
    i->op = (struct import_op){ .caller = &c->caller, .file = -1, .done = imported };
    c->state = i;
    c->on_end = importing_end;
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
        http_stream(c->x, on_body);
}

const struct route routes_snapshot_files[] = {
    { H1_GET, VERB_FILES, "/v1/snapshots/{snapshot}/export", ROUTE_LONG, export,
      "A snapshot as one file", .query = "without_image" },
    { H1_POST, VERB_CREATE, "/v1/snapshots/import", ROUTE_STREAM | ROUTE_LONG, import,
      "A new snapshot of such a file", .answer = "Snapshot", .query = "name", .status = 201 },
    { .path = NULL },
};
