/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/event.h"

#include <stdio.h>

#include "base/clock.h"
#include "lib/json/reader.h"
#include "base/rfc3339.h"

enum { DETAIL_MAX = 256 << 10 };

void event_fill(struct event_record *v, const struct actor *who, const char *owner,
                const char *type, const char *reason)
{
    *v = (struct event_record){ .time_ns = clock_wall(), .from = -1, .to = -1, .actor = *who };
    snprintf(v->type, sizeof v->type, "%s", type);
    snprintf(v->owner, sizeof v->owner, "%s", owner);
    snprintf(v->reason, sizeof v->reason, "%s", reason);
}

static void write_event_member(struct json_writer *w, struct str key, const char *value)
{
    json_key(w, key);
    json_put_lossy(w, str_from(value));
}

/* Parses the stored text, so that the output is valid JSON; invalid text becomes {}. */
static void write_detail_json(struct json_writer *w, struct str detail)
{
    AUTO(arena_done) struct arena a = ARENA_INIT((size_t)4 * DETAIL_MAX);
    const struct json_limits limits = { .bytes = DETAIL_MAX, .depth = 16 };
    const struct json *v;

    json_key(w, STR("detail"));
    if (detail.n && json_read(detail, limits, &a, &v, NULL) >= 0) {
        json_put_tree(w, v);
        return;
    }
    json_begin_object(w);
    json_end_object(w);
}

static void write_actor_json(struct json_writer *w, const struct actor *a)
{
    json_key(w, STR("actor"));
    json_begin_object(w);
    write_event_member(w, STR("kind"), actor_kind_names[a->kind]);
    write_event_member(w, STR("id"), a->id);
    json_end_object(w);
}

void event_write(struct json_writer *w, const struct event_record *v)
{
    char time[TIME_TEXT];

    time_text(v->time_ns, time);
    json_begin_object(w);
    json_key(w, STR("seq"));
    json_put_int(w, v->seq);
    write_event_member(w, STR("time"), time);
    write_event_member(w, STR("type"), v->type);
    if (v->sandbox[0])
        write_event_member(w, STR("sandbox_id"), v->sandbox);
    if (v->from >= 0)
        write_event_member(w, STR("from"), sandbox_state_names[v->from]);
    if (v->to >= 0)
        write_event_member(w, STR("to"), sandbox_state_names[v->to]);
    write_actor_json(w, &v->actor);
    write_event_member(w, STR("reason"), v->reason);
    write_detail_json(w, v->detail);
    json_end_object(w);
}
