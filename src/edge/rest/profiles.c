/* /v1/profiles: what sandboxes can be made from, and what one would cost. */
#include <stdio.h>
#include <stdlib.h>

#include "api/inside.h"
#include "api/route.h"
#include "json/reader.h"

enum { PROFILE_JSON_MAX = 1 << 20, EXTENSIONS_SHOWN_MAX = 64 };

static void put(struct json_writer *w, const char *key, const char *value)
{
    json_key(w, str_from(key));
    json_put_lossy(w, str_from(value));
}

static void put_flag(struct json_writer *w, const char *key, bool value)
{
    json_key(w, str_from(key));
    json_put_bool(w, value);
}

static void put_available(struct json_writer *w, const struct profile *p)
{
    const char *ids[EXTENSIONS_SHOWN_MAX];
    struct json_strs list = { ids, 0 };
    struct err e;
    bool good;

    while (list.n < EXTENSIONS_SHOWN_MAX && extensions[list.n]) {
        ids[list.n] = extensions[list.n]->id;
        list.n++;
    }
    good = profile_available(p, list, &e) >= 0;
    put_flag(w, "available", good);
    if (!good)
        put(w, "unavailable_reason", e.msg);
}

/* Its own fields, and whether it can be had here. */
static void put_profile(struct json_writer *w, const struct profile *p)
{
    const struct json_limits limits = { .bytes = PROFILE_JSON_MAX, .depth = PROFILE_DEPTH_MAX + 4 };
    AUTO(arena_done) struct arena a = ARENA_INIT(4 * PROFILE_JSON_MAX);
    struct buf text AUTO(buf_done) = BUF_INIT(PROFILE_JSON_MAX);
    const struct json *v = NULL;
    struct json_writer own;

    json_writer_init(&own, &text, JSON_COMPACT);
    profile_write(p, &own);
    json_begin_object(w);
    if (json_writer_finish(&own, NULL) >= 0 && json_read(buf_str(&text), limits, &a, &v, NULL) >= 0)
        for (const struct json *m = json_first(v); m != json_end(v); m++) {
            json_key(w, m->key);
            json_put_tree(w, m);
        }
    put_available(w, p);
    json_end_object(w);
}

/* A file that is wrong is shown too: people look for it. */
static void put_broken(struct json_writer *w, const struct catalog_entry *v)
{
    json_begin_object(w);
    put(w, "id", v->name.id);
    json_key(w, STR("version"));
    json_put_uint(w, v->name.version);
    put_flag(w, "available", false);
    put(w, "unavailable_reason", v->problem ? v->problem->err.msg : "its file is wrong");
    json_end_object(w);
}

static void write_list(struct json_writer *w, const void *what)
{
    const struct catalog *c = what;

    json_begin_object(w);
    json_key(w, STR("profiles"));
    json_begin_array(w);
    for (size_t i = 0; i < c->n; i++)
        if (c->entries[i].profile)
            put_profile(w, c->entries[i].profile);
        else
            put_broken(w, &c->entries[i]);
    json_end_array(w);
    json_end_object(w);
}

static void list(struct call *c)
{
    call_answer(c, 200, write_list, control_catalog(c->api->control));
}

static void write_one(struct json_writer *w, const void *what)
{
    put_profile(w, what);
}

static void get(struct call *c)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct err e;

    if (catalog_find(control_catalog(c->api->control), c->params[0], &p, &e) < 0)
        call_fail(c, &e);
    else
        call_answer(c, 200, write_one, p);
}

/* --- validate --- */

enum { PROBLEMS_MAX = 100 };

struct verdict {
    struct arena *arena;
    const struct profile *profile;      /* NULL: … */
    const char *messages[PROBLEMS_MAX]; /* "line 3: ttl.max: …" */
    size_t n;
};

/* "line 3: ttl.max: …" in its parts, as far as it has them. */
static void put_problem(struct json_writer *w, const char *message)
{
    struct str rest = str_from(message), part, after;
    uint64_t line;

    json_begin_object(w);
    after = str_cut(rest, ':', &part);
    if (str_starts(part, STR("line ")) && after.p &&
        str_to_u64((struct str){ part.p + 5, part.n - 5 }, &line)) {
        json_key(w, STR("line"));
        json_put_uint(w, line);
        rest = str_trim(after);
    }
    after = str_cut(rest, ':', &part);
    if (after.p && part.n && str_find(part, ' ') == part.n) {
        json_key(w, STR("field"));
        json_put_lossy(w, part);
        rest = str_trim(after);
    }
    json_key(w, STR("message"));
    json_put_lossy(w, rest);
    json_end_object(w);
}

static void write_verdict(struct json_writer *w, const void *what)
{
    const struct verdict *v = what;

    json_begin_object(w);
    put_flag(w, "valid", v->profile);
    json_key(w, STR("problems"));
    json_begin_array(w);
    for (size_t i = 0; i < v->n; i++)
        put_problem(w, v->messages[i]);
    json_end_array(w);
    if (v->profile) {
        put(w, "id", v->profile->id);
        json_key(w, STR("version"));
        json_put_uint(w, v->profile->version);
        put_available(w, v->profile);
    }
    json_end_object(w);
}

static void on_mistake(void *user, const struct err *e)
{
    struct verdict *v = user;
    const char *text = v->n < PROBLEMS_MAX ? arena_dup(v->arena, str_from(e->msg)) : NULL;

    if (text)
        v->messages[v->n++] = text;
}

static void validate(struct call *c)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct verdict v = { .arena = &c->own };
    const struct json_mistakes all = { on_mistake, &v };
    struct err e = { 0 };

    (void)profile_read_all(c->body, &all, &p, &e);
    v.profile = p;
    call_answer(c, 200, write_verdict, &v);
}

/* --- estimate --- */

static void write_quote(struct json_writer *w, const void *what)
{
    quote_write(w, what);
}

static void estimate(struct call *c)
{
    struct create_request q;
    struct ext_quote quote = { 0 };
    struct err e;

    if (create_request_read(c->json, &q, &c->arena, &e) < 0 ||
        control_estimate(c->api->control, &c->caller, &q, &quote, &e) < 0)
        call_fail(c, &e);
    else
        call_answer(c, 200, write_quote, &quote);
}

const struct route routes_profiles[] = {
    { H1_GET, VERB_READ, "/v1/profiles", 0, list, "List profiles", .answer = "ProfileList" },
    { H1_GET, VERB_READ, "/v1/profiles/{id}", 0, get, "Show a profile", .answer = "Profile" },
    { H1_POST, VERB_READ, "/v1/profiles/validate", ROUTE_TEXT, validate, "Check a profile",
      .answer = "ProfileVerdict" },
    { H1_POST, VERB_CREATE, "/v1/estimate", ROUTE_JSON | ROUTE_CONTENT, estimate,
      "What a sandbox would cost", create_request_fields, &create_request_field_count,
      .answer = "Quote" },
    { .path = NULL },
};
