/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/profiles and /v1/estimate: profiles, their validation, and the cost of a sandbox. */

#include "edge/core/answers.h"
#include "edge/core/internal.h"
#include "edge/rest/routes.h"

enum { BACKENDS_SHOWN_MAX = 64 };

struct profile_answer {
    const char *id;
    uint32_t version;
    const struct profile *profile; /* NULL: its file is invalid */
    bool available;
    const char *reason; /* why it is not available; NULL: it is */
    struct err why;     /* holds the reason */
};

/* Writes the field of the profile with that name. */
static void write_profile_field(struct json_writer *w, const char *name, const void *answer)
{
    const struct profile_answer *a = answer;
    struct json_shape one = { NULL, profile_fields, 1 };

    for (size_t i = 0; a->profile && i < profile_field_count; i++, one.fields++)
        if (strcmp(one.fields->name, name) == 0)
            json_put_members(w, &one, a->profile);
}

#define AT(member) JSON_AT(struct profile_answer, member)
#define FIELD_OF(name_, kind_)                                                                     \
    {                                                                                              \
        .name = (name_), .kind = (kind_), .write = write_profile_field                             \
    }

static const struct json_field profile_answer_fields[] = {
    { "id", JSON_KIND_TEXT, AT(id), .required = true },
    { "version", JSON_KIND_UINT, AT(version), .required = true },
    FIELD_OF("description", JSON_KIND_TEXT),
    FIELD_OF("extension", JSON_KIND_TEXT),
    FIELD_OF("isolation", JSON_KIND_OBJECT),
    FIELD_OF("network", JSON_KIND_OBJECT),
    FIELD_OF("workspace", JSON_KIND_OBJECT),
    FIELD_OF("scope_default", JSON_KIND_TEXT),
    FIELD_OF("ttl", JSON_KIND_OBJECT),
    FIELD_OF("resources", JSON_KIND_OBJECT),
    FIELD_OF("kernel", JSON_KIND_OBJECT),
    FIELD_OF("image", JSON_KIND_TEXT),
    FIELD_OF("writable_system", JSON_KIND_BOOL),
    FIELD_OF("workdir", JSON_KIND_TEXT),
    FIELD_OF("user", JSON_KIND_TEXT),
    FIELD_OF("env", JSON_KIND_MAP),
    FIELD_OF("caps", JSON_KIND_TEXTS),
    FIELD_OF("setup", JSON_KIND_OBJECT),
    FIELD_OF("placement", JSON_KIND_OBJECT),
    FIELD_OF("reachability", JSON_KIND_TEXT),
    FIELD_OF("route", JSON_KIND_OBJECT),
    FIELD_OF("record_commands", JSON_KIND_TEXT),
    FIELD_OF("pool", JSON_KIND_OBJECT),
    FIELD_OF("metadata", JSON_KIND_OBJECT),
    { "available", JSON_KIND_BOOL, AT(available), .required = true },
    { "unavailable_reason", JSON_KIND_TEXT, AT(reason) },
};
static const struct json_shape profile_answer = { "Profile", JSON_FIELDS(profile_answer_fields) };

static void fill_profile_answer(const struct profile *p, struct profile_answer *ret)
{
    const char *ids[BACKENDS_SHOWN_MAX];
    struct json_strs known = { ids, 0 };

    while (known.n < BACKENDS_SHOWN_MAX && backends[known.n]) {
        ids[known.n] = backends[known.n]->id;
        known.n++;
    }
    *ret = (struct profile_answer){ .id = p->id, .version = p->version, .profile = p };
    ret->available = profile_available(p, known, &ret->why) >= 0;
    ret->reason = ret->available ? NULL : ret->why.msg;
}

/* The list has profiles whose files are invalid too, so that users find them. */
static void write_profiles(struct json_writer *w, const void *catalog)
{
    const struct catalog *c = catalog;
    struct profile_answer a;

    for (size_t i = 0; i < c->n; i++) {
        const struct catalog_entry *v = &c->entries[i];

        if (v->profile)
            fill_profile_answer(v->profile, &a);
        else
            a = (struct profile_answer){ .id = v->name.id,
                                         .version = v->name.version,
                                         .reason = v->problem ? v->problem->err.msg
                                                              : "its file is wrong" };
        json_put_shape(w, &profile_answer, &a);
    }
}

static const struct json_shape profile_list = { "ProfileList",
                                                JSON_LIST("profiles", "Profile", write_profiles) };

static void rest_list_profiles(struct call *c)
{
    call_answer_as(c, 200, &profile_list, control_catalog(c->api->control));
}

static void rest_get_profile(struct call *c)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    struct profile_answer a;
    struct err e;

    if (catalog_find(control_catalog(c->api->control), c->params[0], &p, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    fill_profile_answer(p, &a);
    call_answer_as(c, 200, &profile_answer, &a);
}

/* --- validate --- */

enum { PROBLEMS_MAX = 100 };

struct profile_check {
    bool valid;
    struct profile_answer *profile; /* NULL: invalid */
    struct arena *arena;
    const char *messages[PROBLEMS_MAX]; /* "line 3: ttl.max: …" */
    size_t n;
};

/* The parts of a message, as far as present. */
struct profile_problem_answer {
    uint64_t line;
    struct str field, message;
};

static const struct json_field profile_problem_fields[] = {
    { "line", JSON_KIND_UINT, JSON_AT(struct profile_problem_answer, line), .optional = true },
    { "field", JSON_KIND_SLICE, JSON_AT(struct profile_problem_answer, field) },
    { "message", JSON_KIND_SLICE, JSON_AT(struct profile_problem_answer, message),
      .required = true },
};
static const struct json_shape profile_problem_answer = { "ProfileProblem",
                                                          JSON_FIELDS(profile_problem_fields) };

static void write_profile_problem(struct json_writer *w, const char *message)
{
    struct profile_problem_answer a = { .message = str_from(message) };
    struct str part, after = str_cut(a.message, ':', &part);

    if (str_starts(part, STR("line ")) && after.p &&
        str_to_u64((struct str){ part.p + 5, part.n - 5 }, &a.line))
        a.message = str_trim(after);
    after = str_cut(a.message, ':', &part);
    if (after.p && part.n && str_find(part, ' ') == part.n) {
        a.field = part;
        a.message = str_trim(after);
    }
    json_put_shape(w, &profile_problem_answer, &a);
}

static void write_profile_problems(struct json_writer *w, const void *check)
{
    const struct profile_check *v = check;

    for (size_t i = 0; i < v->n; i++)
        write_profile_problem(w, v->messages[i]);
}

#define PROFILE(member)                                                                            \
    .via = offsetof(struct profile_check, profile), JSON_AT(struct profile_answer, member)

static const struct json_field profile_check_fields[] = {
    { "valid", JSON_KIND_BOOL, JSON_AT(struct profile_check, valid), .required = true },
    { "problems", JSON_KIND_OBJECTS, .required = true, .schema = "ProfileProblem",
      .items = write_profile_problems },
    { "id", JSON_KIND_TEXT, PROFILE(id) },
    { "version", JSON_KIND_UINT, PROFILE(version) },
    { "available", JSON_KIND_BOOL, PROFILE(available) },
    { "unavailable_reason", JSON_KIND_TEXT, PROFILE(reason) },
};
static const struct json_shape profile_verdict = { "ProfileVerdict",
                                                   JSON_FIELDS(profile_check_fields) };

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
    struct profile_answer a;
    struct err e = { 0 };

    (void)profile_read_all(c->body, &all, &p, &e);
    if (p) {
        fill_profile_answer(p, &a);
        v.valid = true;
        v.profile = &a;
    }
    call_answer_as(c, 200, &profile_verdict, &v);
}

/* --- estimate --- */

static void rest_estimate_cost(struct call *c)
{
    struct create_request q;
    struct backend_quote quote = { 0 };
    struct err e;

    if (create_request_read(c->json, &q, &c->arena, &e) < 0 ||
        control_estimate(c->api->control, &c->caller, &q, &quote, &e) < 0)
        call_fail(c, &e);
    else
        call_answer_as(c, 200, &quote_answer, &quote);
}

const struct route routes_profiles[] = {
    { H1_GET, VERB_READ, "/v1/profiles", 0, rest_list_profiles, "List profiles",
      .answer = "ProfileList" },
    { H1_GET, VERB_READ, "/v1/profiles/{id}", 0, rest_get_profile, "Show a profile",
      .answer = "Profile" },
    { H1_POST, VERB_READ, "/v1/profiles/validate", ROUTE_TEXT, rest_validate_profile,
      "Check a profile", .answer = "ProfileVerdict", .media = "application/yaml" },
    { H1_POST, VERB_CREATE, "/v1/estimate", ROUTE_JSON | ROUTE_CONTENT, rest_estimate_cost,
      "Estimate the cost of a sandbox", create_request_fields, &create_request_field_count,
      .answer = "Quote" },
    { .path = NULL },
};

const struct json_shape *const answers_profiles[] = { &profile_answer, &profile_list,
                                                      &profile_problem_answer, &profile_verdict,
                                                      NULL };
