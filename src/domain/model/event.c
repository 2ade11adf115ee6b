#include "model/event.h"

#include "json/reader.h"
#include "model/time.h"

enum { DETAIL_MAX = 256 << 10 };

static void put(struct json_writer *w, struct str key, const char *value)
{
    json_key(w, key);
    json_put_lossy(w, str_from(value));
}

/* It is text in the record: read, so that nothing is written that is not JSON. */
static void put_detail(struct json_writer *w, struct str detail)
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

static void put_actor(struct json_writer *w, const struct actor *a)
{
    json_key(w, STR("actor"));
    json_begin_object(w);
    put(w, STR("kind"), actor_kind_names[a->kind]);
    put(w, STR("id"), a->id);
    json_end_object(w);
}

void event_write(struct json_writer *w, const struct event_record *v)
{
    char time[TIME_TEXT];

    time_text(v->time_ns, time);
    json_begin_object(w);
    json_key(w, STR("seq"));
    json_put_int(w, v->seq);
    put(w, STR("time"), time);
    put(w, STR("type"), v->type);
    if (v->sandbox[0])
        put(w, STR("sandbox_id"), v->sandbox);
    if (v->from >= 0)
        put(w, STR("from"), sandbox_state_names[v->from]);
    if (v->to >= 0)
        put(w, STR("to"), sandbox_state_names[v->to]);
    put_actor(w, &v->actor);
    put(w, STR("reason"), v->reason);
    put_detail(w, v->detail);
    json_end_object(w);
}
