/* E2B's measures of a sandbox: what it uses, now and before. */
#include <stdlib.h>

#include "api/e2b/inside.h"
#include "api/e2b/shown.h"
#include "api/e2b/write.h"
#include "base/clock.h"
#include "control/usage.h"

struct measuring {
    struct call *call;
    struct usage_op op;
    uint64_t start_s, end_s;
    struct e2b_size size;
};

static void measuring_end(struct call *c)
{
    free(c->state);
}

static void put_size(struct json_writer *w, const char *key, uint64_t bytes)
{
    json_key(w, str_from(key));
    json_put_uint(w, bytes);
}

static void write_sample(struct json_writer *w, const struct measuring *m,
                         const struct usage_sample *s)
{
    double share = s->processors * 100 / (double)m->size.processors;

    json_begin_object(w);
    time_write(w, "timestamp", s->time_ns);
    put_number(w, "timestampUnix", s->time_ns / NS_PER_S);
    put_number(w, "cpuCount", m->size.processors);
    json_key(w, STR("cpuUsedPct"));
    json_put_double(w, share > 100 ? 100 : share);
    put_size(w, "memUsed", s->memory);
    put_size(w, "memTotal", (uint64_t)m->size.memory_mb << 20);
    put_size(w, "memCache", s->mapped);
    put_size(w, "diskUsed", s->disk);
    put_size(w, "diskTotal", s->disk_max ? s->disk_max : (uint64_t)m->size.disk_mb << 20);
    json_end_object(w);
}

static void write_samples(struct json_writer *w, const void *what)
{
    const struct measuring *m = what;
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

static void measured(struct usage_op *op)
{
    struct measuring *m = container_of(op, struct measuring, op);
    struct call *c = m->call;

    call_answer(c, 200, write_samples, m);
    call_unref(c);
}

static void metrics(struct call *c)
{
    struct measuring *m = calloc(1, sizeof *m);

    if (!m)
        abort();
    *m = (struct measuring){ .call = c, .op.done = measured, .end_s = UINT64_MAX };
    c->state = m;
    c->on_end = measuring_end;
    if (call_query_number(c, "start", INT64_MAX, &m->start_s) < 0 ||
        call_query_number(c, "end", INT64_MAX, &m->end_s) < 0 || !e2b_is_there(c))
        return;
    m->size = e2b_size(c, sandbox_view(c->sandbox).record);
    call_ref(c);
    sandbox_usage(c->sandbox, &m->op);
}

const struct route routes_e2b_metrics[] = {
    { H1_GET, VERB_READ, "/sandboxes/{id}/metrics", ROUTE_SANDBOX | ROUTE_LIVE, metrics,
      .face = &e2b_face },
    { .path = NULL },
};
