/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/event.h"

#include <stdio.h>

#include "base/clock.h"
#include "lib/json/reader.h"
#include "base/own.h"

enum { DETAIL_MAX = 256 << 10 };

void event_fill(struct event_record *v, const struct actor *who, const char *owner,
                const char *type, const char *reason)
{
    *v = (struct event_record){ .time_ns = clock_wall(), .from = -1, .to = -1, .actor = *who };
    snprintf(v->type, sizeof v->type, "%s", type);
    snprintf(v->owner, sizeof v->owner, "%s", owner);
    snprintf(v->reason, sizeof v->reason, "%s", reason);
}

/* Parses the stored text, so that the output is valid JSON; invalid text becomes {}. */
static void write_detail(struct json_writer *w, const char *name, const void *event)
{
    AUTO(arena_done) struct arena a = ARENA_INIT((size_t)4 * DETAIL_MAX);
    const struct json_limits limits = { .bytes = DETAIL_MAX, .depth = 16 };
    const struct event_record *v = event;
    const struct json *detail;

    json_key(w, str_from(name));
    if (v->detail.n && json_read(v->detail, limits, &a, &detail, NULL) >= 0) {
        json_put_tree(w, detail);
        return;
    }
    json_begin_object(w);
    json_end_object(w);
}

static void write_from(struct json_writer *w, const char *name, const void *event)
{
    const struct event_record *v = event;

    if (v->from >= 0)
        json_field_cstr(w, name, sandbox_state_names[v->from]);
}

static void write_to(struct json_writer *w, const char *name, const void *event)
{
    const struct event_record *v = event;

    if (v->to >= 0)
        json_field_cstr(w, name, sandbox_state_names[v->to]);
}

static const struct json_field actor_fields[] = {
    { "kind", JSON_KIND_ENUM, JSON_AT(struct actor, kind), .required = true,
      .names = actor_kind_names },
    { "id", JSON_KIND_CHARS, JSON_AT(struct actor, id), .required = true },
};
const struct json_shape actor_answer = { "Actor", JSON_FIELDS(actor_fields) };

#define AT(member) JSON_AT(struct event_record, member)

static const struct json_field event_fields[] = {
    { "seq", JSON_KIND_INT, AT(seq), .required = true },
    { "time", JSON_KIND_TIME, AT(time_ns), .required = true },
    { "type", JSON_KIND_CHARS, AT(type), .required = true },
    { "sandbox_id", JSON_KIND_CHARS, AT(sandbox), .optional = true },
    { "from", JSON_KIND_TEXT, .names = sandbox_state_names, .write = write_from },
    { "to", JSON_KIND_TEXT, .names = sandbox_state_names, .write = write_to },
    { "actor", JSON_KIND_OBJECT, AT(actor), .required = true, .schema = "Actor",
      JSON_FIELDS(actor_fields) },
    { "reason", JSON_KIND_CHARS, AT(reason) },
    { "detail", JSON_KIND_OBJECT, .write = write_detail },
};
const struct json_shape event_answer = { "Event", JSON_FIELDS(event_fields) };

void event_write(struct json_writer *w, const struct event_record *v)
{
    json_put_shape(w, &event_answer, v);
}
