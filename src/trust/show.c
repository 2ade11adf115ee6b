/* SPDX-License-Identifier: Apache-2.0 */
/* Writes held calls as JSON. */
#include "lib/json/reader.h"
#include "trust/approvals.h"

enum { MEMORY_MAX = 16 << 20, DEPTH_MAX = 64 };

/* Writes stored JSON text. Parses it first, so that the output is always valid. */
static void write_stored_json(struct json_writer *w, const char *key, struct str text)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(MEMORY_MAX);
    const struct json_limits limits = { .bytes = APPROVAL_RESULT_MAX, .depth = DEPTH_MAX };
    const struct json *v;

    if (!text.n)
        return;
    json_key(w, str_from(key));
    if (json_read(text, limits, &a, &v, NULL) >= 0)
        json_put_tree(w, v);
    else
        json_put_lossy(w, text);
}

struct approval_answer {
    enum approval_state state;
    bool done, detailed;
    const struct approval_record *record;
};

static void write_args(struct json_writer *w, const char *name, const void *answer)
{
    const struct approval_answer *a = answer;

    if (a->detailed)
        write_stored_json(w, name, a->record->args);
}

static void write_result(struct json_writer *w, const char *name, const void *answer)
{
    const struct approval_answer *a = answer;

    if (a->detailed && a->done)
        write_stored_json(w, name, a->record->result);
}

#define RECORD(member)                                                                             \
    .via = offsetof(struct approval_answer, record), JSON_AT(struct approval_record, member)

static const struct json_field fields[] = {
    { "request_id", JSON_KIND_CHARS, RECORD(id), .required = true },
    { "state", JSON_KIND_ENUM, JSON_AT(struct approval_answer, state), .required = true,
      .names = approval_state_names },
    { "tool", JSON_KIND_CHARS, RECORD(tool), .required = true },
    { "sandbox_id", JSON_KIND_CHARS, RECORD(sandbox), .optional = true },
    { "peer", JSON_KIND_CHARS, RECORD(peer), .optional = true },
    { "owner", JSON_KIND_CHARS, RECORD(owner), .optional = true },
    { "tier", JSON_KIND_UINT, RECORD(tier), .required = true },
    { "rule", JSON_KIND_CHARS, RECORD(rule), .optional = true },
    { "policy_version", JSON_KIND_CHARS, RECORD(version), .optional = true },
    { "created_at", JSON_KIND_TIME, RECORD(created_ns) },
    { "expires_at", JSON_KIND_TIME, RECORD(expires_ns) },
    { "decided_at", JSON_KIND_TIME, RECORD(decided_ns) },
    { "finished_at", JSON_KIND_TIME, RECORD(finished_ns) },
    { "decided_by", JSON_KIND_CHARS, RECORD(approver), .optional = true },
    { "reason", JSON_KIND_CHARS, RECORD(reason), .optional = true },
    { "request", JSON_KIND_SLICE, RECORD(request), .optional = true,
      .seen = offsetof(struct approval_answer, detailed) },
    { "args", JSON_KIND_OBJECT, .write = write_args },
    { "failed", JSON_KIND_BOOL, RECORD(failed), .seen = offsetof(struct approval_answer, done) },
    { "result", JSON_KIND_OBJECT, .write = write_result },
};
const struct json_shape approval_answer = { "Approval", JSON_FIELDS(fields) };

void approval_write(struct json_writer *w, const struct approval_record *r, bool args)
{
    const struct approval_answer a = {
        .state = r->state, .done = r->state == APPROVAL_DONE, .detailed = args, .record = r
    };

    json_put_shape(w, &approval_answer, &a);
}
