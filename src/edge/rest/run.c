/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/run: runs one program in a sandbox of its own, destroyed afterwards; used by `sandboxer
 * run`. */
#include "edge/core/exec.h"
#include "base/own.h"
#include "edge/core/guard.h"
#include "edge/core/operation.h"
#include "edge/rest/routes.h"

#define RUN_PROFILE "profile.run"

struct one_shot {
    struct call *call;
    struct create_op op;
    struct create_request request;
    struct control_client client;
    struct run_request asked;
    const struct exec_encoder *encoder;
};

static void on_one_shot_created(struct create_op *op, int r, const struct err *e)
{
    struct one_shot *o = container_of(op, struct one_shot, op);
    struct call *c = o->call;

    if (r < 0)
        call_fail_sandbox(c, e, op->record ? op->record->id : NULL,
                          op->record ? op->record->step : NULL);
    else if (control_find_now(c->api->control, &c->caller, str_from(op->record->id), &c->sandbox))
        c->one_shot = true;
    if (r >= 0 && c->sandbox && c->x)
        exec_start(c, &o->asked.process, o->encoder, NULL);
    else if (r >= 0)
        call_fail_with(c, 502, "upstream", "the sandbox ended before its program began");
    call_unref(c);
}

static void create_one_shot(struct call *c)
{
    struct one_shot *o = c->state;

    call_ref(c);
    client_copy(c, &o->request, &o->client);
    control_create(c->api->control, &o->op);
}

static void rest_run_one_shot(struct call *c)
{
    struct one_shot *o = call_state(c, sizeof *o, NULL);
    struct err e;

    o->call = c;
    o->encoder = exec_encoder_for(c);
    if (!caller_may(&c->caller, VERB_CREATE)) {
        call_fail_with(c, 403, "denied", "this caller does not have the verb 'create'");
        return;
    }
    if (run_request_read(c->json, &o->asked, &c->arena, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    o->request.profile = RUN_PROFILE;
    o->request.egress = o->asked.egress;
    o->request.image = o->asked.image;
    o->request.settings = o->asked.settings;
    o->request.mounts = o->asked.mounts;
    client_init(c, &o->client);
    o->op = (struct create_op){ .caller = &c->caller,
                                .request = &o->request,
                                .client = &o->client,
                                .one_shot = true,
                                .done = on_one_shot_created };
    call_own_arena(c, &o->op.arena, 0); /* control sets its limit */
    guard_request_create(c, &o->op, create_one_shot);
}

const struct route routes_run[] = {
    { H1_POST, VERB_EXEC, "/v1/run", ROUTE_JSON | ROUTE_CONTENT | ROUTE_LONG, rest_run_one_shot,
      "Run a program in a sandbox of its own", .fields = process_request_fields,
      .field_count = &run_request_field_count, .answer = "application/x-ndjson Collected" },
    { .path = NULL },
};
