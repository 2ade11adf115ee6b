/* SPDX-License-Identifier: Apache-2.0 */
/* Routes of one sandbox in Daytona's control plane: get, delete, start, stop, labels, intervals,
 * network. */
#include "edge/daytona/internal.h"
#include "edge/core/sandbox_token.h"
#include "edge/core/operation.h"
#include "base/clock.h"

enum { INTERVAL_MAX = 525600 };
#define MINUTE_NS   (60 * NS_PER_S)
#define AUTO_DELETE DAYTONA_ONE "/autodelete/{interval}"

/* Shows also a failed sandbox. */
static void show_daytona_sandbox(struct call *c)
{
    const struct daytona_shown s = { .call = c, .record = c->find.record };

    if (c->sandbox)
        daytona_answer_sandbox(c);
    else if (s.record->state == SANDBOX_FAILED)
        call_answer(c, 200, daytona_write_sandbox, &s);
    else
        call_fail_with(c, 404, "not_found", "the sandbox is destroyed");
}

static void remove_daytona_sandbox(struct call *c)
{
    sandbox_destroy(c->sandbox, &c->caller.actor, "delete", DESTROY_USUAL,
                    call_sandbox_op(c, daytona_settle_sandbox));
}

/* --- start and stop --- */

static void start_daytona_sandbox(struct call *c)
{
    sandbox_resume(c->sandbox, &c->caller.actor, call_sandbox_op(c, daytona_settle_sandbox));
}

/* Stops the sandbox; destroys it if it is ephemeral. */
static void stop_daytona_sandbox(struct call *c)
{
    struct sandbox_rest rest = sandbox_rest(c->sandbox);

    if (rest.idle_ns && !rest.stops)
        remove_daytona_sandbox(c);
    else
        sandbox_stop(c->sandbox, &c->caller.actor, call_sandbox_op(c, daytona_settle_sandbox));
}

static void pause_daytona_sandbox(struct call *c)
{
    sandbox_pause(c->sandbox, &c->caller.actor, call_sandbox_op(c, daytona_settle_sandbox));
}

/* --- intervals --- */

/* Returns false after it has answered the call. */
static bool read_minutes(struct call *c, int64_t least, int64_t *ret)
{
    if (str_to_i64(c->params[1], ret) && *ret >= least && *ret <= INTERVAL_MAX)
        return true;
    call_fail_with(c, 400, "invalid", "interval: must be a number of minutes, at most one year");
    return false;
}

/* autodelete 0: destroyed instead of stopped; negative: kept. */
static void set_sandbox_rest(struct call *c)
{
    bool of_delete = strcmp(c->route->path, AUTO_DELETE) == 0;
    struct sandbox_rest rest = sandbox_rest(c->sandbox);
    int64_t minutes;

    if (!read_minutes(c, of_delete ? -1 : 0, &minutes))
        return;
    if (of_delete) {
        rest.stops = minutes != 0;
        rest.keep_ns = minutes > 0 ? minutes * MINUTE_NS : 0;
    } else {
        rest.idle_ns = minutes * MINUTE_NS;
    }
    sandbox_set_rest(c->sandbox, &c->caller.actor, &rest,
                     call_sandbox_op(c, daytona_settle_sandbox));
}

/* Sets the TTL from now on; 0: as long as the profile allows. */
static void set_ttl(struct call *c)
{
    int64_t minutes;

    if (read_minutes(c, 0, &minutes))
        sandbox_set_ttl(c->sandbox, &c->caller.actor,
                        minutes ? minutes * MINUTE_NS : INTERVAL_MAX * MINUTE_NS,
                        call_sandbox_op(c, daytona_settle_sandbox));
}

/* --- labels --- */

struct daytona_labels_request {
    struct json_map labels;
};

static const struct json_field labels_fields[] = {
    { "labels", JSON_KIND_MAP, JSON_AT(struct daytona_labels_request, labels), .required = true,
      .max = REQUEST_LABELS_MAX },
};

static void set_labels(struct call *c)
{
    struct json_map *all = call_alloc(c, 1, sizeof *all);
    const struct sandbox_record *r = sandbox_view(c->sandbox).record;
    struct daytona_labels_request q = { 0 };
    const char *name = daytona_sandbox_name(r);
    struct err e;

    if (!daytona_read_body(c, labels_fields, COUNT_OF(labels_fields), &q))
        return;
    name = name == r->id ? NULL : arena_dup(&c->own, str_from(name));
    if (daytona_make_labels(c, &q.labels, name, all, &e) < 0)
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

static void on_daytona_network_set(void *user, int r, const struct err *e)
{
    struct call *c = user;

    if (r < 0)
        call_fail(c, e);
    else
        daytona_answer_sandbox(c);
    call_unref(c);
}

static void set_daytona_network(struct call *c)
{
    struct egress_settings asked;
    struct network_request q = { 0 };
    struct err e;

    if (!daytona_read_body(c, network_fields, COUNT_OF(network_fields), &q))
        return;
    if (daytona_network_read(c, &q.network, &asked, &e) < 0)
        call_fail(c, &e);
    else
        egress_settings_set(c, &asked, on_daytona_network_set);
}

/* --- the toolbox's address --- */

static void write_url(struct json_writer *w, const void *what)
{
    char url[DAYTONA_URL] = "";

    (void)daytona_toolbox_url(what, url);
    json_begin_object(w);
    json_field_text(w, "url", url);
    json_end_object(w);
}

static void show_toolbox_url(struct call *c)
{
    call_answer(c, 200, write_url, c);
}

/* --- signed links to files --- */

static void show_signing_key(struct call *c)
{
    struct buf text AUTO(buf_done) = BUF_INIT(SANDBOX_TOKEN_TEXT + 8);
    char key[SANDBOX_TOKEN_TEXT];

    daytona_signing_key(c, key);
    buf_addf(&text, "\"%s\"", key);
    call_answer_bytes(c, 200, "application/json", buf_str(&text));
}

static void fail_key_rotation(struct call *c)
{
    call_fail_with(c, 501, "unsupported", "rotating the signing key is not supported");
}

#define ROW(method, verb, path, flags, handler)                                                    \
    {                                                                                              \
        method, verb, DAYTONA_ONE path, flags, .handle = handler                                   \
    }

const struct route routes_daytona_sandboxes[] = {
    ROW(H1_GET, VERB_READ, "", ROUTE_SANDBOX, show_daytona_sandbox),
    ROW(H1_DELETE, VERB_DESTROY, "", DAYTONA_LIVE, remove_daytona_sandbox),
    ROW(H1_POST, VERB_EXTEND, "/start", DAYTONA_LIVE, start_daytona_sandbox),
    ROW(H1_POST, VERB_EXTEND, "/stop", DAYTONA_LIVE, stop_daytona_sandbox),
    ROW(H1_POST, VERB_EXTEND, "/pause", DAYTONA_LIVE, pause_daytona_sandbox),
    ROW(H1_POST, VERB_EXTEND, "/archive", DAYTONA_LIVE, stop_daytona_sandbox),
    ROW(H1_PUT, VERB_CREATE, "/labels", DAYTONA_LIVE | ROUTE_JSON, set_labels),
    ROW(H1_POST, VERB_EXTEND, "/autostop/{interval}", DAYTONA_LIVE, set_sandbox_rest),
    { H1_POST, VERB_EXTEND, AUTO_DELETE, DAYTONA_LIVE, .handle = set_sandbox_rest },
    ROW(H1_POST, VERB_EXTEND, "/ttl/{minutes}", DAYTONA_LIVE, set_ttl),
    /* looking it up has touched it */
    ROW(H1_POST, VERB_EXTEND, "/last-activity", DAYTONA_LIVE, daytona_answer_sandbox),
    ROW(H1_POST, VERB_CREATE, "/network-settings", DAYTONA_LIVE | ROUTE_JSON, set_daytona_network),
    ROW(H1_GET, VERB_FILES, "/signing-key", DAYTONA_LIVE, show_signing_key),
    ROW(H1_POST, VERB_FILES, "/signing-key/rotate", DAYTONA_LIVE, fail_key_rotation),
    ROW(H1_GET, VERB_READ, "/toolbox-proxy-url", DAYTONA_LIVE, show_toolbox_url),
    { .path = NULL },
};
