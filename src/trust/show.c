/* SPDX-License-Identifier: Apache-2.0 */
/* Writes held calls as JSON. */
#include "lib/json/reader.h"
#include "base/rfc3339.h"
#include "trust/approvals.h"

enum { MEMORY_MAX = 16 << 20, DEPTH_MAX = 64 };

static void write_approval_time(struct json_writer *w, const char *key, int64_t ns)
{
    char text[TIME_TEXT];

    if (!ns)
        return;
    time_text(ns, text);
    json_field_optional(w, key, text);
}

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

void approval_write(struct json_writer *w, const struct approval_record *r, bool args)
{
    json_begin_object(w);
    json_field_optional(w, "request_id", r->id);
    json_field_optional(w, "state", approval_state_names[r->state]);
    json_field_optional(w, "tool", r->tool);
    json_field_optional(w, "sandbox_id", r->sandbox);
    json_field_optional(w, "peer", r->peer);
    json_field_optional(w, "owner", r->owner);
    json_field_uint(w, "tier", r->tier);
    json_field_optional(w, "rule", r->rule);
    json_field_optional(w, "policy_version", r->version);
    write_approval_time(w, "created_at", r->created_ns);
    write_approval_time(w, "expires_at", r->expires_ns);
    write_approval_time(w, "decided_at", r->decided_ns);
    write_approval_time(w, "finished_at", r->finished_ns);
    json_field_optional(w, "decided_by", r->approver);
    json_field_optional(w, "reason", r->reason);
    if (args && r->request.n)
        json_field_lossy(w, "request", r->request);
    if (args)
        write_stored_json(w, "args", r->args);
    if (r->state == APPROVAL_DONE)
        json_field_bool(w, "failed", r->failed);
    if (r->state == APPROVAL_DONE && args)
        write_stored_json(w, "result", r->result);
    json_end_object(w);
}
