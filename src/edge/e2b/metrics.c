/* SPDX-License-Identifier: Apache-2.0 */
/* GET /sandboxes/{id}/metrics of E2B's control plane: current and past resource usage. */
#include "edge/e2b/internal.h"
#include "base/clock.h"
#include "base/own.h"
#include "control/sandbox/usage.h"

struct metrics_call {
    struct call *call;
    struct usage_op op;
    uint64_t start_s, end_s;
    struct e2b_size size;
};

static void write_sample(struct json_writer *w, const struct metrics_call *m,
                         const struct usage_sample *s)
{
    double share = s->processors * 100 / (double)m->size.processors;

    json_begin_object(w);
    time_write(w, "timestamp", s->time_ns);
    json_field_int(w, "timestampUnix", s->time_ns / NS_PER_S);
    json_field_int(w, "cpuCount", m->size.processors);
    json_field_double(w, "cpuUsedPct", share > 100 ? 100 : share);
    json_field_uint(w, "memUsed", s->memory);
    json_field_uint(w, "memTotal", (uint64_t)m->size.memory_mb << 20);
    json_field_uint(w, "memCache", s->mapped);
    json_field_uint(w, "diskUsed", s->disk);
    json_field_uint(w, "diskTotal", s->disk_max ? s->disk_max : (uint64_t)m->size.disk_mb << 20);
    json_end_object(w);
}

static void write_samples(struct json_writer *w, const void *what)
{
    const struct metrics_call *m = what;
    const struct usage_sample *all;
    size_t n = sandbox_samples(m->call->sandbox, &all);

    json_begin_array(w);
    for (size_t i = 0; i < n; i++) {
        uint64_t at = (uint64_t)(all[i].time_ns / NS_PER_S);

        if (at >= m->start_s && at <= m->end_s)
            write_sample(w, m, &all[i]);
    }
    json_end_array(w);
}

static void on_usage_measured(struct usage_op *op)
{
    struct metrics_call *m = container_of(op, struct metrics_call, op);
    struct call *c = m->call;

    call_answer(c, 200, write_samples, m);
    call_unref(c);
}

static void show_e2b_metrics(struct call *c)
{
    struct metrics_call *m = call_state(c, sizeof *m, NULL);

    *m = (struct metrics_call){ .call = c, .op.done = on_usage_measured, .end_s = UINT64_MAX };
    if (call_query_number(c, "start", INT64_MAX, &m->start_s) < 0 ||
        call_query_number(c, "end", INT64_MAX, &m->end_s) < 0 || !e2b_is_there(c))
        return;
    m->size = e2b_size(c, sandbox_view(c->sandbox).record);
    call_ref(c);
    sandbox_usage(c->sandbox, &m->op);
}

const struct route routes_e2b_metrics[] = {
    { H1_GET, VERB_READ, "/sandboxes/{id}/metrics", ROUTE_SANDBOX | ROUTE_LIVE,
      .handle = show_e2b_metrics },
    { .path = NULL },
};
