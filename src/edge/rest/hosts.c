/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/hosts and /v1/inspect/host: hosts that sandboxes can be placed on. */
#include <stdio.h>

#include "edge/core/internal.h"
#include "base/own.h"
#include "edge/core/listing.h"
#include "edge/rest/routes.h"
#include "control/host/host.h"
#include "control/host/hosts.h"

enum { HOSTS_BYTES_MAX = 4 << 20 };

static void write_host(struct json_writer *w, const char *name, const char *address,
                       const char *source, const struct json_map *labels, int64_t added_ns)
{
    json_begin_object(w);
    json_field_text(w, "name", name);
    json_field_text(w, "address", address);
    json_field_text(w, "source", source);
    json_field_begin_object(w, "labels");
    for (size_t i = 0; labels && i < labels->n; i++)
        json_field_text(w, labels->p[i].key, labels->p[i].value);
    json_end_object(w);
    time_write(w, "added_at", added_ns);
    json_end_object(w);
}

/* --- list --- */

static void write_hosts(struct json_writer *w, const void *what)
{
    const struct store_listing *l = what;
    const struct json_objects *configured = &l->call->api->config->hosts;
    const struct config_host *h = configured->p;

    json_begin_object(w);
    json_field_begin_array(w, "hosts");
    write_host(w, CONFIG_HOST_LOCAL, CONFIG_HOST_LOCAL, "built-in", NULL, 0);
    for (size_t i = 0; i < configured->n; i++)
        write_host(w, h[i].name, h[i].address, "configuration", &h[i].labels, 0);
    for (size_t i = 0; i < l->query.n; i++) {
        const struct host_record *r = &l->query.hosts[i];

        if (!hosts_configured(l->call->api->control, r->name))
            write_host(w, r->name, r->address, "added", &r->labels, r->added_ns);
    }
    json_end_array(w);
    json_end_object(w);
}

static void rest_list_hosts(struct call *c)
{
    const struct store_query q = { .kind = STORE_HOSTS };

    call_list(c, &q, HOSTS_BYTES_MAX, write_hosts);
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
static const size_t host_field_count = COUNT_OF(host_fields);

struct host_change {
    struct call *call;
    struct host_op op;
    bool add;
};

static void write_added_host(struct json_writer *w, const void *what)
{
    const struct host_record *r = what;

    write_host(w, r->name, r->address, "added", &r->labels, r->added_ns);
}

static void on_host_changed(struct host_op *op, int r, const struct err *e)
{
    struct host_change *h = container_of(op, struct host_change, op);

    if (r < 0)
        call_fail(h->call, e);
    else if (h->add)
        call_answer(h->call, 201, write_added_host, &op->record);
    else
        call_answer_empty(h->call);
    call_unref(h->call);
}

static struct host_change *new_host_change(struct call *c, bool add)
{
    struct host_change *h = call_state(c, sizeof *h, NULL);

    h->call = c;
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
static int read_host_request(struct call *c, struct host_request *q)
{
    struct err e;
    int r = json_bind(c->json, host_fields, host_field_count, q, &c->arena, &e);

    if (r >= 0 && !is_host_word(str_from(q->name), "._-"))
        r = err_set(&e, ERR_INVALID, "name: must be letters, digits, '.', '_' and '-'");
    if (r >= 0 && !is_host_word(str_from(q->address), "._-@:[]%/"))
        r = err_set(&e, ERR_INVALID, "address: must be one that ssh takes: host or user@host");
    for (size_t i = 0; r >= 0 && i < q->labels.n; i++)
        r = label_check(str_from(q->labels.p[i].key), str_from(q->labels.p[i].value), &e);
    if (r < 0)
        call_fail(c, &e);
    return r;
}

static void rest_add_host(struct call *c)
{
    struct host_request q = { 0 };
    struct host_change *h;

    if (read_host_request(c, &q) < 0)
        return;
    h = new_host_change(c, true);
    snprintf(h->op.record.name, sizeof h->op.record.name, "%s", q.name);
    snprintf(h->op.record.address, sizeof h->op.record.address, "%s", q.address);
    h->op.record.labels = q.labels;
    call_ref(c);
    hosts_add(c->api->control, &c->caller, &h->op);
}

static void rest_remove_host(struct call *c)
{
    struct host_change *h;

    if (!is_host_word(c->params[0], "._-") || c->params[0].n >= sizeof h->op.record.name) {
        call_fail_with(c, 404, "not_found", "there is no host of that name");
        return;
    }
    h = new_host_change(c, false);
    str_copy(c->params[0], h->op.record.name, sizeof h->op.record.name);
    call_ref(c);
    hosts_remove(c->api->control, &c->caller, &h->op);
}

static void write_inspection(struct json_writer *w, const void *what)
{
    const struct call *c = what;

    host_write(c->api->control, w);
}

static void rest_inspect_host(struct call *c)
{
    call_answer(c, 200, write_inspection, c);
}

const struct route routes_hosts[] = {
    { H1_GET, VERB_ADMIN, "/v1/hosts", ROUTE_ADMIN, rest_list_hosts, "List placement targets",
      .answer = "HostList" },
    { H1_POST, VERB_ADMIN, "/v1/hosts", ROUTE_JSON | ROUTE_ADMIN, rest_add_host,
      "Add a placement target", host_fields, &host_field_count, .answer = "Host", .status = 201 },
    { H1_DELETE, VERB_ADMIN, "/v1/hosts/{name}", ROUTE_ADMIN, rest_remove_host,
      "Remove a placement target", .status = 204 },
    { H1_GET, VERB_ADMIN, "/v1/inspect/host", ROUTE_ADMIN, rest_inspect_host,
      "Telemetry of this machine", .answer = "HostTelemetry" },
    { .path = NULL },
};
