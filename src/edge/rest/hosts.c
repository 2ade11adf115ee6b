/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/hosts and /v1/inspect/host: hosts that sandboxes can be placed on. */
#include <stdio.h>

#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "base/own.h"
#include "edge/core/operation.h"
#include "edge/rest/routes.h"
#include "control/host/host.h"
#include "control/host/hosts.h"

enum { HOSTS_BYTES_MAX = 4 << 20 };

struct host_answer {
    const char *name, *address;
    enum { HOST_BUILT_IN, HOST_CONFIGURED, HOST_ADDED } source;
    struct json_map labels;
    int64_t added_ns;
};

static const char *const host_sources[] = { "built-in", "configuration", "added", NULL };

#define AT(member) JSON_AT(struct host_answer, member)
static const struct json_field host_answer_fields[] = {
    { "name", JSON_KIND_TEXT, AT(name), .required = true },
    { "address", JSON_KIND_TEXT, AT(address), .required = true },
    { "source", JSON_KIND_ENUM, AT(source), .required = true, .names = host_sources },
    { "labels", JSON_KIND_MAP, AT(labels), .required = true },
    { "added_at", JSON_KIND_TIME, AT(added_ns) },
};
static const struct json_shape host_answer = { "Host", JSON_FIELDS(host_answer_fields) };

static struct host_answer answer_of_host(const struct host_record *r)
{
    return (struct host_answer){ r->name, r->address, HOST_ADDED, r->labels, r->added_ns };
}

/* --- list --- */

static void write_hosts(struct json_writer *w, const void *listing)
{
    const struct store_listing *l = listing;
    const struct json_objects *configured = &l->call->api->config->hosts;
    const struct config_host *h = configured->p;
    struct host_answer a = { CONFIG_HOST_LOCAL, CONFIG_HOST_LOCAL, .source = HOST_BUILT_IN };

    json_put_shape(w, &host_answer, &a);
    for (size_t i = 0; i < configured->n; i++) {
        a = (struct host_answer){ h[i].name, h[i].address, HOST_CONFIGURED, h[i].labels, 0 };
        json_put_shape(w, &host_answer, &a);
    }
    for (size_t i = 0; i < l->query.n; i++) {
        if (hosts_configured(l->call->api->control, l->query.hosts[i].name))
            continue;
        a = answer_of_host(&l->query.hosts[i]);
        json_put_shape(w, &host_answer, &a);
    }
}

static const struct json_shape host_list = { "HostList", JSON_LIST("hosts", "Host", write_hosts) };

static void rest_list_hosts(struct call *c)
{
    const struct store_query q = { .kind = STORE_HOSTS };

    call_list(c, &q, HOSTS_BYTES_MAX, &host_list);
}

/* --- add and remove --- */

struct host_request {
    const char *name, *address;
    struct json_map labels;
};

static const struct json_field host_fields[] = {
    { "name", JSON_KIND_STR, JSON_AT(struct host_request, name), .required = true, .min = 1,
      .max = 63, .doc = "Name of the host: letters, digits, '.', '_' and '-'." },
    { "address", JSON_KIND_STR, JSON_AT(struct host_request, address), .required = true, .min = 1,
      .max = RECORD_NAME_MAX - 1, .doc = "SSH address: host or user@host." },
    { "labels", JSON_KIND_MAP, JSON_AT(struct host_request, labels), .max = REQUEST_LABELS_MAX,
      .doc = "Labels for the selection of hosts." },
};

struct host_change {
    struct call *call;
    struct host_op op;
    bool add;
};

static void on_host_changed(struct host_op *op, int r, const struct err *e)
{
    struct host_change *h = container_of(op, struct host_change, op);
    const struct host_answer a = answer_of_host(&op->record);

    if (r < 0)
        call_fail(h->call, e);
    else if (h->add)
        call_answer_as(h->call, 201, &host_answer, &a);
    else
        call_answer_empty(h->call);
    call_unref(h->call);
}

static struct host_change *new_host_change(struct call *c, bool add)
{
    struct host_change *h = call_state(c, sizeof *h, NULL);

    h->call = call_ref(c);
    h->add = add;
    h->op.done = on_host_changed;
    return h;
}

static bool is_host_word(struct str s, const char *also)
{
    for (size_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= 'A' && s.p[i] <= 'Z') ||
              (s.p[i] >= '0' && s.p[i] <= '9') || (s.p[i] && strchr(also, s.p[i]))))
            return false;
    return s.n && s.p[0] != '-' && s.p[0] != '.';
}

/* Reads a host. Addresses become arguments of ssh and must not look like options. */
static bool read_host_request(struct call *c, struct host_request *q)
{
    struct err e;
    int r = 0;

    if (!call_read(c, q))
        return false;
    if (!is_host_word(str_from(q->name), "._-"))
        r = err_set(&e, ERR_INVALID, "name: must be letters, digits, '.', '_' and '-'");
    if (r >= 0 && !is_host_word(str_from(q->address), "._-@:[]%/"))
        r = err_set(&e, ERR_INVALID, "address: must be one that ssh takes: host or user@host");
    for (size_t i = 0; r >= 0 && i < q->labels.n; i++)
        r = label_check(str_from(q->labels.p[i].key), str_from(q->labels.p[i].value), &e);
    if (r < 0)
        call_fail(c, &e);
    return r >= 0;
}

static void rest_add_host(struct call *c)
{
    struct host_request q = { 0 };
    struct host_change *h;

    if (!read_host_request(c, &q))
        return;
    h = new_host_change(c, true);
    snprintf(h->op.record.name, sizeof h->op.record.name, "%s", q.name);
    snprintf(h->op.record.address, sizeof h->op.record.address, "%s", q.address);
    h->op.record.labels = q.labels;
    hosts_add(c->api->control, &c->caller, &h->op);
}

static void rest_remove_host(struct call *c)
{
    struct host_change *h;

    if (!is_host_word(c->params[0], "._-") || c->params[0].n >= sizeof h->op.record.name) {
        call_fail_missing(c, "host", c->params[0]);
        return;
    }
    h = new_host_change(c, false);
    str_copy(c->params[0], h->op.record.name, sizeof h->op.record.name);
    hosts_remove(c->api->control, &c->caller, &h->op);
}

static void rest_inspect_host(struct call *c)
{
    struct host_telemetry t;

    host_measure(c->api->control, &t);
    call_answer_as(c, 200, &host_telemetry_answer, &t);
}

const struct route routes_hosts[] = {
    { H1_GET, VERB_ADMIN, "/v1/hosts", ROUTE_ADMIN, rest_list_hosts, "List placement targets",
      .answer = "HostList" },
    { H1_POST, VERB_ADMIN, "/v1/hosts", ROUTE_JSON | ROUTE_ADMIN, rest_add_host,
      "Add a placement target", ROUTE_FIELDS(host_fields), .answer = "Host", .status = 201 },
    { H1_DELETE, VERB_ADMIN, "/v1/hosts/{name}", ROUTE_ADMIN, rest_remove_host,
      "Remove a placement target", .status = 204 },
    { H1_GET, VERB_ADMIN, "/v1/inspect/host", ROUTE_ADMIN, rest_inspect_host,
      "Telemetry of this machine", .answer = "HostTelemetry" },
    { .path = NULL },
};

const struct json_shape *const answers_hosts[] = { &host_answer, &host_list, &host_telemetry_answer,
                                                   NULL };
