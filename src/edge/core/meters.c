/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/internal.h"
#include "base/clock.h"

enum { REQUESTS, SECONDS, CONNECTIONS, UNAUTHENTICATED, IN_FLIGHT, BUFFERED, REFUSED };
enum { REFUSED_CONNECTION, REFUSED_REQUEST, REFUSED_BYTES };

static const struct metric_label outcomes =
    METRIC_LABEL("outcome", "2xx", "3xx", "4xx", "5xx", "stream", "gone");
static const struct metric_label limits =
    METRIC_LABEL("limit", "connections", "requests_in_flight", "buffered_bytes");
static const double seconds[] = { 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                  0.1,    0.25,  0.5,    1,     5,    30 };

static const struct metric table[] = {
    [REQUESTS] = { .kind = METRIC_COUNTER,
                   .name = "sandboxer_requests_total",
                   .help = "Requests, by how they ended: a class of status, an answer that was "
                           "streamed, or a client that left.",
                   .labels = { &outcomes } },
    [SECONDS] = { .kind = METRIC_HISTOGRAM,
                  .name = "sandboxer_request_seconds",
                  .help = "From a request's head to its answer, of those not streamed.",
                  METRIC_BUCKETS(seconds) },
    [CONNECTIONS] = { .kind = METRIC_GAUGE,
                      .name = "sandboxer_connections",
                      .help = "Connections of clients." },
    [UNAUTHENTICATED] = { .kind = METRIC_GAUGE,
                          .name = "sandboxer_connections_unauthenticated",
                          .help = "Of these, those that no token has authenticated yet." },
    [IN_FLIGHT] = { .kind = METRIC_GAUGE,
                    .name = "sandboxer_requests_in_flight",
                    .help = "Requests that are not answered completely." },
    [BUFFERED] = { .kind = METRIC_GAUGE,
                   .name = "sandboxer_buffered_bytes",
                   .help = "Bytes of requests and of unread answers in memory." },
    [REFUSED] = { .kind = METRIC_COUNTER,
                  .name = "sandboxer_limit_refused_total",
                  .help = "Connections and requests refused because their caller had its share, or "
                          "all callers together had everything.",
                  .labels = { &limits } },
};

static void refresh_api_metrics(struct metric_set *s)
{
    const struct api *a = container_of(s, struct api, meters);
    struct http_stats now;

    http_server_stats(a->server, &now);
    metric_set_to(s, CONNECTIONS, METRIC_ALONE, now.connections);
    metric_set_to(s, UNAUTHENTICATED, METRIC_ALONE, (double)now.strangers);
    metric_set_to(s, IN_FLIGHT, METRIC_ALONE, now.exchanges);
    metric_set_to(s, BUFFERED, METRIC_ALONE, (double)now.buffered);
    metric_raise_to(s, REFUSED, METRIC_AT(REFUSED_CONNECTION), (double)now.turned_away);
    metric_raise_to(s, REFUSED, METRIC_AT(REFUSED_REQUEST), (double)a->requests.refused);
    metric_raise_to(s, REFUSED, METRIC_AT(REFUSED_BYTES), (double)now.out_of_bytes);
}

int meters_register(struct api *a, struct err *e)
{
    int r = metrics_register(control_metrics(a->control), &a->meters, table, COUNT_OF(table), e);

    a->meters.refresh = refresh_api_metrics;
    return r;
}

void meters_ended(struct call *c, enum call_outcome o)
{
    if (c->counted)
        return;
    c->counted = true;
    metric_add(&c->api->meters, REQUESTS, METRIC_AT(o), 1);
    if (o < CALL_STREAMED)
        metric_observe(&c->api->meters, SECONDS, METRIC_ALONE,
                       (double)(clock_mono() - c->began_ns) / (double)NS_PER_S);
}
