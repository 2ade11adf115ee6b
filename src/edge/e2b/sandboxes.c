/* SPDX-License-Identifier: Apache-2.0 */
/* Routes of one sandbox in E2B's control plane: info, kill, timeout, pause, connect, network. */
#include "edge/e2b/internal.h"
#include "edge/core/operation.h"
#include "base/clock.h"
#include "base/units.h"

static void show_e2b_sandbox(struct call *c)
{
    struct e2b_shown s = e2b_show(c);

    if (e2b_is_there(c))
        call_answer(c, 200, e2b_write_info, &s);
}

static void kill_e2b_sandbox(struct call *c)
{
    if (e2b_is_there(c))
        sandbox_destroy(c->sandbox, &c->caller.actor, "kill", DESTROY_USUAL,
                        call_sandbox_op(c, call_settle_op));
}

/* --- timeouts --- */

struct time_request {
    int64_t timeout_s, duration_s;
    bool memory;
};

static const struct json_field time_fields[] = {
    { "timeout", JSON_KIND_INT, JSON_AT(struct time_request, timeout_s), .min = 0,
      .max = E2B_TIMEOUT_MAX_S },
    { "duration", JSON_KIND_INT, JSON_AT(struct time_request, duration_s), .min = 0,
      .max = E2B_TIMEOUT_MAX_S },
    { "memory", JSON_KIND_BOOL, JSON_AT(struct time_request, memory) },
};

/* Returns false after it has answered the call. */
static bool read_time(struct call *c, struct time_request *q)
{
    *q = (struct time_request){ 0 };
    return e2b_read_body(c, time_fields, COUNT_OF(time_fields), q);
}

/* As for create. Returns false after it has answered the call. */
static bool is_timeout_allowed(struct call *c, int64_t timeout_s)
{
    const struct sandbox_record *r = sandbox_view(c->sandbox).record;
    char asked[48], most[48];

    if (timeout_s * NS_PER_S <= r->ttl_max_ns)
        return true;
    units_show_duration(timeout_s * NS_PER_S, asked);
    units_show_duration(r->ttl_max_ns, most);
    return call_fail_with(c, 400, "invalid", "timeout: %s is more than the %s that %s allows",
                          asked, most, r->profile);
}

/* Sets the timeout from now on, longer or shorter than before; 0 ends or pauses the sandbox at
 * once. */
static void set_e2b_timeout(struct call *c)
{
    struct time_request q;

    if (read_time(c, &q) && e2b_is_running(c) && is_timeout_allowed(c, q.timeout_s))
        sandbox_set_ttl(c->sandbox, &c->caller.actor, q.timeout_s * NS_PER_S,
                        call_sandbox_op(c, call_settle_op));
}

static void refresh_e2b_sandbox(struct call *c)
{
    struct time_request q;

    if (read_time(c, &q) && e2b_is_running(c))
        sandbox_extend(c->sandbox, &c->caller.actor,
                       (q.duration_s ? q.duration_s : E2B_TIMEOUT_V1_S) * NS_PER_S,
                       call_sandbox_op(c, call_settle_op));
}

/* --- pause and resume --- */

/* Pausing keeps the files, and the processes until the machine stops; so the client's choice about
 * memory makes no difference. */
static void pause_e2b_sandbox(struct call *c)
{
    struct time_request q;

    if (!read_time(c, &q) || !e2b_is_there(c))
        return;
    if (sandbox_state(c->sandbox) == SANDBOX_PAUSED)
        call_fail_with(c, 409, "conflict", "the sandbox is paused already");
    else
        sandbox_pause(c->sandbox, &c->caller.actor, call_sandbox_op(c, call_settle_op));
}

static void answer_e2b_connection(struct sandbox_op *op, int status, int r, const struct err *e)
{
    struct call *c = call_of_op(op);
    struct e2b_shown s = e2b_show(c);

    call_settle_with(c, r, e, status, e2b_write_made, &s);
}

static void on_e2b_connected(struct sandbox_op *op, int r, const struct err *e)
{
    answer_e2b_connection(op, 200, r, e);
}

static void on_e2b_resumed(struct sandbox_op *op, int r, const struct err *e)
{
    answer_e2b_connection(op, 201, r, e);
}

static void connect_e2b_sandbox(struct call *c)
{
    struct time_request q;
    int64_t duration_ns;

    if (!read_time(c, &q) || !e2b_is_there(c))
        return;
    duration_ns = (q.timeout_s ? q.timeout_s : e2b_usual_timeout_s(c)) * NS_PER_S;
    if (sandbox_state(c->sandbox) == SANDBOX_PAUSED)
        sandbox_resume_for(c->sandbox, &c->caller.actor, duration_ns,
                           call_sandbox_op(c, on_e2b_resumed));
    else
        sandbox_extend(c->sandbox, &c->caller.actor, duration_ns,
                       call_sandbox_op(c, on_e2b_connected));
}

/* --- network --- */

static void set_e2b_network(struct call *c)
{
    struct e2b_network q = { 0 };
    struct err e;
    int r = e2b_bind(c, c->json, e2b_network_fields, E2B_NETWORK_FIELD_COUNT, &q, &e);

    if (!e2b_is_running(c))
        return;
    if (r < 0 || e2b_network_check(&q, &e) < 0)
        call_fail(c, &e);
    else
        egress_settings_set(c, &q.egress, call_settle);
}

#define ONE      (ROUTE_SANDBOX | ROUTE_LIVE)
#define ONE_JSON (ONE | ROUTE_JSON)

const struct route routes_e2b[] = {
    { H1_GET, VERB_READ, "/sandboxes/{id}", ONE, .handle = show_e2b_sandbox },
    { H1_DELETE, VERB_DESTROY, "/sandboxes/{id}", ONE, .handle = kill_e2b_sandbox },
    { H1_POST, VERB_EXTEND, "/sandboxes/{id}/timeout", ONE_JSON, .handle = set_e2b_timeout },
    { H1_POST, VERB_EXTEND, "/sandboxes/{id}/refreshes", ONE_JSON, .handle = refresh_e2b_sandbox },
    { H1_POST, VERB_EXTEND, "/sandboxes/{id}/pause", ONE_JSON, .handle = pause_e2b_sandbox },
    { H1_POST, VERB_EXTEND, "/sandboxes/{id}/connect", ONE_JSON, .handle = connect_e2b_sandbox },
    { H1_POST, VERB_EXTEND, "/v2/sandboxes/{id}/connect", ONE_JSON, .handle = connect_e2b_sandbox },
    { H1_POST, VERB_EXTEND, "/sandboxes/{id}/resume", ONE_JSON, .handle = connect_e2b_sandbox },
    { H1_PUT, VERB_CREATE, "/sandboxes/{id}/network", ONE_JSON, .handle = set_e2b_network },
    { .path = NULL },
};
