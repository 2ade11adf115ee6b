/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/sandboxes/{id}/checkpoints and /undo. */
#include "base/own.h"
#include "control/snapshot/checkpoints.h"
#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "edge/core/operation.h"
#include "edge/rest/routes.h"

/* --- JSON --- */

struct checkpoint_answer {
    bool current, taken;
    const struct snapshot_record *record;
    bool was_asked; /* has `taken` */
};

#define AT(member) JSON_AT(struct checkpoint_answer, member)
#define RECORD(member)                                                                             \
    .via = offsetof(struct checkpoint_answer, record), JSON_AT(struct snapshot_record, member)

static const struct json_field checkpoint_answer_fields[] = {
    { "checkpoint", JSON_KIND_INT, RECORD(checkpoint), .required = true },
    { "parent", JSON_KIND_INT, RECORD(parent), .required = true },
    { "cause", JSON_KIND_CHARS, RECORD(cause), .required = true },
    { "changed", JSON_KIND_INT, RECORD(changed), .required = true },
    { "bytes", JSON_KIND_INT, RECORD(bytes), .required = true },
    { "current", JSON_KIND_BOOL, AT(current), .required = true },
    { "taken", JSON_KIND_BOOL, AT(taken), .seen = offsetof(struct checkpoint_answer, was_asked) },
    { "sandbox_id", JSON_KIND_CHARS, RECORD(sandbox), .required = true },
    { "snapshot_id", JSON_KIND_CHARS, RECORD(id), .required = true },
    { "created_at", JSON_KIND_TIME, RECORD(created_ns), .required = true },
};
static const struct json_shape checkpoint_answer = { "Checkpoint",
                                                     JSON_FIELDS(checkpoint_answer_fields) };

struct checkpoint_writing {
    struct json_writer *w;
    int64_t now;
};

static void write_checkpoint(const struct snapshot *x, void *user)
{
    const struct checkpoint_writing *p = user;
    const struct checkpoint_answer a = { .record = &x->record,
                                         .current = x->record.checkpoint == p->now };

    json_put_shape(p->w, &checkpoint_answer, &a);
}

static void write_checkpoints(struct json_writer *w, const void *sandbox)
{
    struct checkpoint_writing p = { w, checkpoint_now(sandbox) };

    checkpoints_each(sandbox, write_checkpoint, &p);
}

static void write_undos(struct json_writer *w, const char *name, const void *sandbox)
{
    json_field_int(w, name, checkpoint_undos(sandbox));
}

static void write_programs(struct json_writer *w, const char *name, const void *sandbox)
{
    json_field_uint(w, name, undo_programs(sandbox));
}

static const struct json_field checkpoint_list_fields[] = {
    { "checkpoints", JSON_KIND_OBJECTS, .required = true, .schema = "Checkpoint",
      .items = write_checkpoints },
    { "undos", JSON_KIND_INT, .required = true, .write = write_undos },
    { "programs", JSON_KIND_UINT, .required = true, .write = write_programs },
};
static const struct json_shape checkpoint_list = { "CheckpointList",
                                                   JSON_FIELDS(checkpoint_list_fields) };

static void rest_list_checkpoints(struct call *c)
{
    call_answer_as(c, 200, &checkpoint_list, c->sandbox);
}

/* --- taking --- */

struct checkpoint_request {
    const char *cause;
};

static const struct json_field checkpoint_request_fields[] = {
    { "cause", JSON_KIND_STR, JSON_AT(struct checkpoint_request, cause), .min = 1,
      .max = RECORD_CAUSE_MAX - 1, .doc = "Why it is taken, for the list; default: request." },
};

struct checkpoint_call {
    struct call *call;
    struct checkpoint_op op;
};

static void on_rest_checkpoint_taken(struct checkpoint_op *op, int r, const struct err *e)
{
    struct checkpoint_call *t = container_of(op, struct checkpoint_call, op);
    const struct checkpoint_answer a = { .record = r < 0 ? NULL : &op->checkpoint->record,
                                         .current = true,
                                         .taken = op->taken,
                                         .was_asked = true };

    call_settle_as(t->call, r, e, 200, &checkpoint_answer, &a);
}

static void rest_take_checkpoint(struct call *c)
{
    struct checkpoint_request q = { 0 };
    struct checkpoint_call *t;
    struct err e;

    if (!call_read(c, &q))
        return;
    if (q.cause && checkpoint_cause_check(str_from(q.cause), &e) < 0) {
        call_fail(c, &e);
        return;
    }
    t = call_state(c, sizeof *t, NULL);
    t->call = call_ref(c);
    t->op = (struct checkpoint_op){ .caller = &c->caller,
                                    .cause = q.cause ? q.cause : "request",
                                    .done = on_rest_checkpoint_taken };
    checkpoint_take(c->sandbox, &t->op);
}

/* --- going back --- */

struct undo_request {
    int64_t to;
};

static const struct json_field undo_request_fields[] = {
    { "to", JSON_KIND_INT, JSON_AT(struct undo_request, to), .min = 1, .max = INT64_MAX,
      .doc = "Number of a checkpoint; default: the newest one of its past with other files." },
};

struct undo_call {
    struct call *call;
    struct undo_op op;
};

struct undo_answer {
    const char *sandbox_id, *state;
    const struct undo_op *op;
};

#define UNDO(member) JSON_AT(struct undo_answer, member)
#define OP(member)   .via = offsetof(struct undo_answer, op), JSON_AT(struct undo_op, member)

static const struct json_field undo_answer_fields[] = {
    { "sandbox_id", JSON_KIND_TEXT, UNDO(sandbox_id), .required = true },
    { "state", JSON_KIND_TEXT, UNDO(state), .required = true },
    { "checkpoint", JSON_KIND_INT, OP(number), .required = true },
    { "cause", JSON_KIND_CHARS, OP(cause), .required = true },
    { "created_at", JSON_KIND_TIME, OP(created_ns), .required = true },
    { "kept", JSON_KIND_INT, OP(kept), .required = true },
    { "changed", JSON_KIND_INT, OP(changed), .required = true },
};
static const struct json_shape undo_answer = { "Undone", JSON_FIELDS(undo_answer_fields) };

static void on_rest_undone(struct undo_op *op, int r, const struct err *e)
{
    struct undo_call *u = container_of(op, struct undo_call, op);
    const struct undo_answer a = { .op = op,
                                   .sandbox_id = call_sandbox_id(u->call),
                                   .state = sandbox_state_names[sandbox_state(u->call->sandbox)] };

    call_settle_as(u->call, r, e, 200, &undo_answer, &a);
}

/* An undo replaces the files, and ends the programs, as a stop does. */
static void rest_undo(struct call *c)
{
    struct undo_request q = { 0 };
    struct undo_call *u;

    if (!caller_may(&c->caller, VERB_EXTEND)) {
        call_fail_with(c, 403, "denied",
                       "an undo ends the programs of the sandbox: this token does not allow "
                       "'extend'");
        return;
    }
    if (!call_read(c, &q))
        return;
    u = call_state(c, sizeof *u, NULL);
    u->call = call_ref(c);
    u->op = (struct undo_op){ .caller = &c->caller, .to = q.to, .done = on_rest_undone };
    sandbox_undo(c->sandbox, &u->op);
}

const struct route routes_checkpoints[] = {
    { H1_GET, VERB_READ, "/v1/sandboxes/{id}/checkpoints", ROUTE_SANDBOX | ROUTE_LIVE | ROUTE_QUIET,
      rest_list_checkpoints, "List the checkpoints of a sandbox, the oldest first",
      .answer = "CheckpointList" },
    { H1_POST, VERB_CREATE, "/v1/sandboxes/{id}/checkpoints",
      ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE, rest_take_checkpoint,
      "Take a checkpoint of a sandbox, unless its files are those of the last one",
      ROUTE_FIELDS(checkpoint_request_fields), .answer = "Checkpoint" },
    { H1_POST, VERB_FILES, "/v1/sandboxes/{id}/undo", ROUTE_JSON | ROUTE_SANDBOX | ROUTE_LIVE,
      rest_undo, "Replace the files of a sandbox by those of a checkpoint; its processes end",
      ROUTE_FIELDS(undo_request_fields), .answer = "Undone" },
    { .path = NULL },
};

const struct json_shape *const answers_checkpoints[] = {
    &checkpoint_answer,
    &checkpoint_list,
    &undo_answer,
    NULL,
};
