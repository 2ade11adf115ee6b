/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon itself: health, version, metrics, OpenAPI document, backup of the store. */
#include "edge/core/answers.h"
#include "edge/core/domain.h"
#include "base/own.h"
#include "edge/core/internal.h"
#include "edge/rest/openapi.h"
#include "edge/rest/routes.h"
#include "lib/http/origin.h"
#include "lib/metrics/metrics.h"

enum { METRICS_MAX = 4 << 20 };

static const char *const health_states[] = { "ok", NULL };

static const struct json_field health_fields[] = {
    { "status", JSON_KIND_TEXT, .size = sizeof(const char *), .required = true,
      .names = health_states },
};
static const struct json_shape health_answer = { "Health", JSON_FIELDS(health_fields) };

static void rest_show_health(struct call *c)
{
    call_answer_as(c, 200, &health_answer, health_states);
}

struct version_answer {
    const char *name, *version, *api;
    const char *url, *domain; /* for TCP clients; NULL: the client knows them, or there are none */
};

static const struct json_field version_fields[] = {
    { "name", JSON_KIND_TEXT, JSON_AT(struct version_answer, name), .required = true },
    { "version", JSON_KIND_TEXT, JSON_AT(struct version_answer, version), .required = true },
    { "api", JSON_KIND_TEXT, JSON_AT(struct version_answer, api), .required = true },
    { "url", JSON_KIND_TEXT, JSON_AT(struct version_answer, url) },
    { "domain", JSON_KIND_TEXT, JSON_AT(struct version_answer, domain) },
};
static const struct json_shape version_answer = { "Version", JSON_FIELDS(version_fields) };

static void rest_show_version(struct call *c)
{
    struct version_answer a = { "sandboxer", SANDBOXER_VERSION, "v1", NULL, NULL };
    char url[ORIGIN_URL], address[DOMAIN_ADDRESS];

    if (http_peer(c->x)->is_unix) {
        a.url = origin_url(&c->api->tcp, url) ? url : NULL;
        a.domain = domain_address(c->api->config, address) ? address : NULL;
    }
    call_answer_as(c, 200, &version_answer, &a);
}

static void rest_show_metrics(struct call *c)
{
    struct buf text AUTO(buf_done) = BUF_INIT(METRICS_MAX);

    if (metrics_write(control_metrics(c->api->control), &text) < 0)
        call_fail_with(c, 500, "bug", "the metrics take more than 4 MiB");
    else
        call_answer_bytes(c, 200, METRICS_CONTENT_TYPE, buf_str(&text));
}

static void rest_show_openapi(struct call *c)
{
    struct buf *text = &c->api->openapi;
    struct err e;

    if (!text->n && openapi_write(text, &e) < 0)
        call_fail(c, &e);
    else
        call_answer_bytes(c, 200, "application/json", buf_str(text));
}

/* --- backup --- */

struct backup_call {
    struct call *call;
    struct store_query query;
};

static void on_store_copied(struct store_query *q, int r, const struct err *e)
{
    static const struct h1_field fields[] = {
        { STR("Content-Type"), STR("application/vnd.sqlite3") },
        { STR("Content-Disposition"), STR("attachment; filename=\"sandboxer.db\"") },
        { STR("Cache-Control"), STR("no-store") },
    };
    struct call *c = container_of(q, struct backup_call, query)->call;

    if (r < 0)
        call_fail(c, e);
    else if (c->x)
        call_answer_file(c, q->fd, fields, COUNT_OF(fields));
    call_unref(c);
}

static void rest_back_up_store(struct call *c)
{
    struct backup_call *b = call_state(c, sizeof *b, NULL);
    struct err e;
    int r;

    b->call = c;
    b->query.kind = STORE_BACKUP;
    call_own_fd(c, &b->query.fd);
    b->query.fd = r = control_scratch(c->api->control, &e);
    if (r >= 0)
        r = store_ask(control_store(c->api->control), &b->query, on_store_copied, &e);
    if (r < 0)
        call_fail(c, &e);
    else
        call_ref(c);
}

const struct route routes_meta[] = {
    { H1_GET, VERB_READ, "/healthz", ROUTE_OPEN, rest_show_health, "Health check",
      .answer = "Health" },
    { H1_GET, VERB_READ, "/version", ROUTE_OPEN, rest_show_version, "Version of the daemon",
      .answer = "Version" },
    { H1_GET, VERB_READ, "/openapi.json", ROUTE_OPEN, rest_show_openapi, "This OpenAPI document",
      .answer = "application/json" },
    { H1_GET, VERB_ADMIN, "/metrics", ROUTE_ADMIN, rest_show_metrics, "Metrics for Prometheus",
      .answer = "text/plain" },
    { H1_GET, VERB_ADMIN, "/v1/backup", ROUTE_ADMIN, rest_back_up_store,
      "A consistent copy of the store", .answer = "application/vnd.sqlite3" },
    { .path = NULL },
};

const struct json_shape *const answers_meta[] = { &health_answer, &version_answer, NULL };
