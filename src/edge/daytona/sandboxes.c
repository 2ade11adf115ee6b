/* One of Daytona's sandboxes: get, delete, start, stop, labels, times, network. */
#include <stdio.h>
#include <stdlib.h>

#include "api/daytona/inside.h"
#include "api/daytona/network.h"
#include "api/e2b/inside.h"
#include "api/operation.h"
#include "api/guard.h"
#include "base/clock.h"
#include "control/ceiling.h"
#include "control/policy_text.h"

enum { INTERVAL_MAX = 525600 };
#define MINUTE_NS (60 * NS_PER_S)

/* Also one that is over. */
static void get(struct call *c)
{
    const struct daytona_shown s = { .call = c, .record = c->find.record };

    if (c->sandbox)
        daytona_answer_sandbox(c);
    else if (s.record->state == SANDBOX_FAILED)
        call_answer(c, 200, daytona_write_sandbox, &s);
    else
        call_fail_with(c, 404, "not_found", "the sandbox is destroyed");
}

static void remove_box(struct call *c)
{
    sandbox_destroy(c->sandbox, &c->caller.actor, "delete", DESTROY_SYNC,
                    call_sandbox_op(c, daytona_settle_sandbox));
}

/* --- start and stop --- */

static void start(struct call *c)
{
    sandbox_resume(c->sandbox, &c->caller.actor, call_sandbox_op(c, daytona_settle_sandbox));
}

/* One that is not to outlive its use goes with it. */
static void stop(struct call *c)
{
    struct sandbox_rest rest = sandbox_rest(c->sandbox);

    if (rest.idle_ns && !rest.stops)
        remove_box(c);
    else
        sandbox_stop(c->sandbox, &c->caller.actor, call_sandbox_op(c, daytona_settle_sandbox));
}

static void pause_box(struct call *c)
{
    sandbox_pause(c->sandbox, &c->caller.actor, call_sandbox_op(c, daytona_settle_sandbox));
}

/* --- times --- */

/* False: it is answered. */
static bool read_minutes(struct call *c, int64_t least, int64_t *ret)
{
    if (str_to_i64(c->params[1], ret) && *ret >= least && *ret <= INTERVAL_MAX)
        return true;
    call_fail_with(c, 400, "invalid", "interval: is no number of minutes, or more than a year");
    return false;
}

static void set_rest(struct call *c, const struct sandbox_rest *rest)
{
    sandbox_set_rest(c->sandbox, &c->caller.actor, rest,
                     call_sandbox_op(c, daytona_settle_sandbox));
}

static void set_auto_stop(struct call *c)
{
    struct sandbox_rest rest = sandbox_rest(c->sandbox);
    int64_t minutes;

    if (!read_minutes(c, 0, &minutes))
        return;
    rest.idle_ns = minutes * MINUTE_NS;
    set_rest(c, &rest);
}

/* 0: it goes when it would be stopped; less: it is kept. */
static void set_auto_delete(struct call *c)
{
    struct sandbox_rest rest = sandbox_rest(c->sandbox);
    int64_t minutes;

    if (!read_minutes(c, -1, &minutes))
        return;
    rest.stops = minutes != 0;
    rest.keep_ns = minutes > 0 ? minutes * MINUTE_NS : 0;
    set_rest(c, &rest);
}

/* From now on; 0: as long as its profile allows. */
static void set_ttl(struct call *c)
{
    int64_t minutes;

    if (read_minutes(c, 0, &minutes))
        sandbox_set_ttl(c->sandbox, &c->caller.actor,
                        minutes ? minutes * MINUTE_NS : INTERVAL_MAX * MINUTE_NS,
                        call_sandbox_op(c, daytona_settle_sandbox));
}

static void touch(struct call *c)
{
    daytona_answer_sandbox(c); /* finding it has */
}

/* --- labels --- */

struct labels_request {
    struct json_map labels;
};

static const struct json_field labels_fields[] = {
    { "labels", JSON_KIND_MAP, JSON_AT(struct labels_request, labels), .required = true,
      .max = REQUEST_LABELS_MAX },
};

static void set_labels(struct call *c)
{
    struct json_map *all = arena_alloc(&c->own, sizeof *all);
    const struct sandbox_record *r = sandbox_view(c->sandbox).record;
    struct labels_request q = { 0 };
    const char *name = daytona_name(r);
    struct err e;

    if (!all)
        abort();
    if (!daytona_read(c, labels_fields, COUNT_OF(labels_fields), &q))
        return;
    name = name == r->id ? NULL : arena_dup(&c->own, str_from(name));
    if (daytona_labels(c, &q.labels, name, all, &e) < 0)
        call_fail(c, &e);
    else
        sandbox_set_labels(c->sandbox, &c->caller, all, call_sandbox_op(c, daytona_settle_sandbox));
}

/* --- network --- */

struct network_request {
    struct daytona_network network;
};

static const struct json_field network_fields[] = { DAYTONA_NETWORK_FIELDS(struct network_request,
                                                                           network) };

static void network_set(void *user, int r, const struct err *e)
{
    struct call *c = user;

    if (r < 0)
        call_fail(c, e);
    else
        daytona_answer_sandbox(c);
    call_unref(c);
}

static int network_text(struct call *c, const struct daytona_network *n, struct policy_text **ret,
                        struct err *e)
{
    struct sandbox_egress x;
    struct e2b_network asked;
    struct policy_bounds b;
    int r = daytona_network_read(c, n, &asked, e);

    if (r >= 0 && !sandbox_egress(c->sandbox, &x))
        r = err_set(e, ERR_CONFLICT, "this sandbox was made without a network, and cannot get one");
    if (r >= 0)
        r = sandbox_ceiling(c->sandbox, &c->caller, &c->arena, &b, e);
    if (r >= 0)
        r = e2b_network_text(&asked, control_catalog(c->api->control),
                             sandbox_view(c->sandbox).record, &b, ret, e);
    return r;
}

static void set_network(struct call *c)
{
    AUTO(policy_text_unrefp_) struct policy_text *t = NULL;
    struct network_request q = { 0 };
    struct err e;

    if (!daytona_read(c, network_fields, COUNT_OF(network_fields), &q))
        return;
    if (network_text(c, &q.network, &t, &e) < 0)
        call_fail(c, &e);
    else
        guard_set_network(c, take_ptr(t), network_set);
}

/* --- where its inside is --- */

static void write_url(struct json_writer *w, const void *what)
{
    char base[128], url[160] = "";

    if (daytona_base(what, base, sizeof base))
        snprintf(url, sizeof url, "%s" DAYTONA_TOOLBOX, base);
    json_begin_object(w);
    put(w, "url", url);
    json_end_object(w);
}

static void toolbox_url(struct call *c)
{
    call_answer(c, 200, write_url, c);
}

/* --- links to its files --- */

static void signing_key(struct call *c)
{
    struct buf text AUTO(buf_done) = BUF_INIT(E2B_HELD_TEXT + 8);
    char key[E2B_HELD_TEXT];

    daytona_signing_key(c, key);
    buf_addf(&text, "\"%s\"", key);
    call_answer_bytes(c, 200, "application/json", buf_str(&text));
}

static void cannot_rotate(struct call *c)
{
    call_fail_with(c, 501, "unsupported", "a sandbox keeps its signing key");
}

#define ROW(method, verb, path, flags, handler)                                                    \
    {                                                                                              \
        method, verb, DAYTONA_ONE path, flags, handler, .face = &daytona_face                      \
    }

const struct route routes_daytona_sandboxes[] = {
    ROW(H1_GET, VERB_READ, "", ROUTE_SANDBOX, get),
    ROW(H1_DELETE, VERB_DESTROY, "", DAYTONA_LIVE, remove_box),
    ROW(H1_POST, VERB_EXTEND, "/start", DAYTONA_LIVE, start),
    ROW(H1_POST, VERB_EXTEND, "/stop", DAYTONA_LIVE, stop),
    ROW(H1_POST, VERB_EXTEND, "/pause", DAYTONA_LIVE, pause_box),
    ROW(H1_POST, VERB_EXTEND, "/archive", DAYTONA_LIVE, stop),
    ROW(H1_PUT, VERB_CREATE, "/labels", DAYTONA_LIVE | ROUTE_JSON, set_labels),
    ROW(H1_POST, VERB_EXTEND, "/autostop/{interval}", DAYTONA_LIVE, set_auto_stop),
    ROW(H1_POST, VERB_EXTEND, "/autodelete/{interval}", DAYTONA_LIVE, set_auto_delete),
    ROW(H1_POST, VERB_EXTEND, "/ttl/{minutes}", DAYTONA_LIVE, set_ttl),
    ROW(H1_POST, VERB_EXTEND, "/last-activity", DAYTONA_LIVE, touch),
    ROW(H1_POST, VERB_CREATE, "/network-settings", DAYTONA_LIVE | ROUTE_JSON, set_network),
    ROW(H1_GET, VERB_FILES, "/signing-key", DAYTONA_LIVE, signing_key),
    ROW(H1_POST, VERB_FILES, "/signing-key/rotate", DAYTONA_LIVE, cannot_rotate),
    ROW(H1_GET, VERB_READ, "/toolbox-proxy-url", DAYTONA_LIVE, toolbox_url),
    { .path = NULL },
};
