/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/profiles and /v1/estimate: profiles, their validation, and the cost of a sandbox. */
#include <stdio.h>
#include <stdlib.h>

#include "edge/core/internal.h"
#include "edge/rest/routes.h"
#include "lib/json/reader.h"

enum { PROFILE_JSON_MAX = 1 << 20, EXTENSIONS_SHOWN_MAX = 64 };

static void write_availability(struct json_writer *w, const struct profile *p)
{
    const char *ids[EXTENSIONS_SHOWN_MAX];
    struct json_strs known = { ids, 0 };
    struct err e;
    bool good;

    while (known.n < EXTENSIONS_SHOWN_MAX && extensions[known.n]) {
        ids[known.n] = extensions[known.n]->id;
        known.n++;
    }
    good = profile_available(p, known, &e) >= 0;
    json_field_bool(w, "available", good);
    if (!good)
        json_field_text(w, "unavailable_reason", e.msg);
}

/* Writes the fields of a profile and its availability on this host. */
static void write_profile_json(struct json_writer *w, const struct profile *p)
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
    write_availability(w, p);
    json_end_object(w);
}

/* Writes a profile whose file is invalid, so that users find it in the list. */
static void write_broken_profile(struct json_writer *w, const struct catalog_entry *v)
{
    json_begin_object(w);
    json_field_text(w, "id", v->name.id);
    json_field_uint(w, "version", v->name.version);
    json_field_bool(w, "available", false);
    json_field_text(w, "unavailable_reason",
                    v->problem ? v->problem->err.msg : "its file is wrong");
    json_end_object(w);
}

static void write_profile_list(struct json_writer *w, const void *what)
{
    const struct catalog *c = what;

    json_begin_object(w);
    json_field_begin_array(w, "profiles");
    for (size_t i = 0; i < c->n; i++)
        if (c->entries[i].profile)
            write_profile_json(w, c->entries[i].profile);
        else
            write_broken_profile(w, &c->entries[i]);
    json_end_array(w);
    json_end_object(w);
}

static void rest_list_profiles(struct call *c)
{
    call_answer(c, 200, write_profile_list, control_catalog(c->api->control));
}

static void write_profile_answer(struct json_writer *w, const void *what)
{
    write_profile_json(w, what);
}

static void rest_get_profile(struct call *c)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct err e;

    if (catalog_find(control_catalog(c->api->control), c->params[0], &p, &e) < 0)
        call_fail(c, &e);
    else
        call_answer(c, 200, write_profile_answer, p);
}

/* --- validate --- */

enum { PROBLEMS_MAX = 100 };

struct profile_check {
    struct arena *arena;
    const struct profile *profile;      /* NULL: invalid */
    const char *messages[PROBLEMS_MAX]; /* "line 3: ttl.max: …" */
    size_t n;
};

/* Splits "line 3: ttl.max: …" into its parts, as far as present. */
static void write_profile_problem(struct json_writer *w, const char *message)
{
    struct str rest = str_from(message), part, after;
    uint64_t line;

    json_begin_object(w);
    after = str_cut(rest, ':', &part);
    if (str_starts(part, STR("line ")) && after.p &&
        str_to_u64((struct str){ part.p + 5, part.n - 5 }, &line)) {
        json_field_uint(w, "line", line);
        rest = str_trim(after);
    }
    after = str_cut(rest, ':', &part);
    if (after.p && part.n && str_find(part, ' ') == part.n) {
        json_field_lossy(w, "field", part);
        rest = str_trim(after);
    }
    json_field_lossy(w, "message", rest);
    json_end_object(w);
}

static void write_profile_check(struct json_writer *w, const void *what)
{
    const struct profile_check *v = what;

    json_begin_object(w);
    json_field_bool(w, "valid", v->profile);
    json_field_begin_array(w, "problems");
    for (size_t i = 0; i < v->n; i++)
        write_profile_problem(w, v->messages[i]);
    json_end_array(w);
    if (v->profile) {
        json_field_text(w, "id", v->profile->id);
        json_field_uint(w, "version", v->profile->version);
        write_availability(w, v->profile);
    }
    json_end_object(w);
}

static void on_profile_mistake(void *user, const struct err *e)
{
    struct profile_check *v = user;
    const char *text = v->n < PROBLEMS_MAX ? arena_dup(v->arena, str_from(e->msg)) : NULL;

    if (text)
        v->messages[v->n++] = text;
}

static void rest_validate_profile(struct call *c)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct profile_check v = { .arena = &c->own };
    const struct json_mistakes all = { on_profile_mistake, &v };
    struct err e = { 0 };

    (void)profile_read_all(c->body, &all, &p, &e);
    v.profile = p;
    call_answer(c, 200, write_profile_check, &v);
}

/* --- estimate --- */

static void write_quote_answer(struct json_writer *w, const void *what)
{
    quote_write(w, what);
}

static void rest_estimate_cost(struct call *c)
{
    struct create_request q;
    struct backend_quote quote = { 0 };
    struct err e;

    if (create_request_read(c->json, &q, &c->arena, &e) < 0 ||
        control_estimate(c->api->control, &c->caller, &q, &quote, &e) < 0)
        call_fail(c, &e);
    else
        call_answer(c, 200, write_quote_answer, &quote);
}

const struct route routes_profiles[] = {
    { H1_GET, VERB_READ, "/v1/profiles", 0, rest_list_profiles, "List profiles",
      .answer = "ProfileList" },
    { H1_GET, VERB_READ, "/v1/profiles/{id}", 0, rest_get_profile, "Show a profile",
      .answer = "Profile" },
    { H1_POST, VERB_READ, "/v1/profiles/validate", ROUTE_TEXT, rest_validate_profile,
      "Check a profile", .answer = "ProfileVerdict" },
    { H1_POST, VERB_CREATE, "/v1/estimate", ROUTE_JSON | ROUTE_CONTENT, rest_estimate_cost,
      "Estimate the cost of a sandbox", create_request_fields, &create_request_field_count,
      .answer = "Quote" },
    { .path = NULL },
};
