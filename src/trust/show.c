/* Held calls as JSON. */
#include "json/reader.h"
#include "model/time.h"
#include "trust/approvals.h"

enum { MEMORY_MAX = 16 << 20, DEPTH_MAX = 64 };

static void put(struct json_writer *w, const char *key, const char *value)
{
    if (!value[0])
        return;
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static void put_time(struct json_writer *w, const char *key, int64_t ns)
{
    char text[TIME_TEXT];

    if (!ns)
        return;
    time_text(ns, text);
    put(w, key, text);
}

/* It is text in the record: read, so that nothing is written that is not JSON. */
static void put_json(struct json_writer *w, const char *key, struct str text)
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
    put(w, "request_id", r->id);
    put(w, "state", approval_state_names[r->state]);
    put(w, "tool", r->tool);
    put(w, "sandbox_id", r->sandbox);
    put(w, "peer", r->peer);
    put(w, "owner", r->owner);
    json_key(w, STR("tier"));
    json_put_uint(w, r->tier);
    put(w, "rule", r->rule);
    put(w, "policy_version", r->version);
    put_time(w, "created_at", r->created_ns);
    put_time(w, "expires_at", r->expires_ns);
    put_time(w, "decided_at", r->decided_ns);
    put_time(w, "finished_at", r->finished_ns);
    put(w, "decided_by", r->approver);
    put(w, "reason", r->reason);
    if (args && r->request.n) {
        json_key(w, STR("request"));
        json_put_lossy(w, r->request);
    }
    if (args)
        put_json(w, "args", r->args);
    if (r->state == APPROVAL_DONE) {
        json_key(w, STR("failed"));
        json_put_bool(w, r->failed);
    }
    if (r->state == APPROVAL_DONE && args)
        put_json(w, "result", r->result);
    json_end_object(w);
}
