/* SPDX-License-Identifier: Apache-2.0 */
/* /v1/daemon: the daemon's status, and the reload of files that its configuration names. */
#include <stdio.h>
#include <unistd.h>

#include "base/own.h"
#include "edge/core/answers.h"
#include "edge/core/daemon_facts.h"
#include "edge/core/internal.h"
#include "edge/rest/routes.h"
#include "trust/bundle.h"
#include "trust/policy.h"
#include "trust/trust.h"

/* --- status --- */

struct daemon_answer {
    const char *version;
    const struct daemon_facts *facts;
    int pid;
    uint64_t sandboxes, connections;
};

static const char *const starters[] = { "hand", "demand", "systemd", NULL };

#define AT(member) JSON_AT(struct daemon_answer, member)
#define FACT(member)                                                                               \
    .via = offsetof(struct daemon_answer, facts), JSON_AT(struct daemon_facts, member)

static const struct json_field storage_fact_fields[] = {
    { "driver", JSON_KIND_TEXT, JSON_AT(struct daemon_facts, driver), .required = true },
    { "why", JSON_KIND_TEXT, JSON_AT(struct daemon_facts, why) },
};

static const struct json_field daemon_fields[] = {
    { "version", JSON_KIND_TEXT, AT(version), .required = true },
    { "pid", JSON_KIND_INT, AT(pid), .required = true, .doc = "Process of the control plane." },
    { "supervisor_pid", JSON_KIND_INT, FACT(supervisor), .required = true,
      .doc = "Process that started it, and that SIGTERM ends." },
    { "started_at", JSON_KIND_TIME, FACT(started_ns), .required = true },
    { "started_by", JSON_KIND_ENUM, FACT(starter), .required = true, .names = starters },
    { "state", JSON_KIND_TEXT, FACT(state), .required = true },
    { "socket", JSON_KIND_TEXT, FACT(socket) },
    { "log", JSON_KIND_TEXT, FACT(log) },
    { "storage", JSON_KIND_OBJECT, .via = offsetof(struct daemon_answer, facts), .required = true,
      JSON_FIELDS(storage_fact_fields) },
    { "listen_option", JSON_KIND_TEXT, FACT(listen_option),
      .doc = "TCP address that its command line names." },
    { "listeners", JSON_KIND_TEXTS, FACT(listen), .required = true },
    { "idle_exit_s", JSON_KIND_SECONDS, FACT(idle_exit_ns), .optional = true,
      .doc = "It ends after so many seconds without use." },
    { "sandboxes", JSON_KIND_UINT, AT(sandboxes), .required = true },
    { "connections", JSON_KIND_UINT, AT(connections), .required = true },
};
static const struct json_shape daemon_answer = { "Daemon", JSON_FIELDS(daemon_fields) };

static void rest_show_daemon(struct call *c)
{
    struct http_stats stats;
    struct daemon_answer a = { SANDBOXER_VERSION, c->api->daemon, (int)getpid(),
                               control_count(c->api->control), 0 };

    http_server_stats(c->api->server, &stats);
    a.connections = stats.connections;
    call_answer_as(c, 200, &daemon_answer, &a);
}

/* --- reload --- */

/* A profile of a catalog, to compare it with the next one. */
struct profile_print {
    char name[PROFILE_ID_MAX + 12];
    uint64_t hash; /* of its content, or of the problem with its file */
};

struct profile_prints {
    struct profile_print *p; /* by name and version, as in the catalog */
    size_t n;
};

struct reload_answer {
    uint64_t profiles;
    struct json_strs added, removed, changed;
    const struct catalog *catalog;
    const char *policy, *policy_problem;
};

/* FNV-1a: it finds changes, and protects nothing. */
static uint64_t hash_text(struct str text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < text.n; i++)
        h = (h ^ (unsigned char)text.p[i]) * UINT64_C(0x100000001b3);
    return h;
}

static uint64_t hash_profile(const struct catalog_entry *v)
{
    AUTO(buf_done) struct buf text = BUF_INIT(1 << 20);
    struct json_writer w;

    if (!v->profile)
        return hash_text(str_from(v->problem ? v->problem->err.msg : ""));
    json_writer_init(&w, &text, JSON_COMPACT);
    json_unbind(v->profile, profile_fields, profile_field_count, &w);
    (void)json_writer_finish(&w, NULL);
    return hash_text(buf_str(&text));
}

static void print_catalog(const struct catalog *c, struct arena *a, struct profile_prints *ret)
{
    *ret = (struct profile_prints){ arena_array(a, c->n, sizeof *ret->p), 0 };
    for (size_t i = 0; ret->p && i < c->n; i++) {
        struct profile_print *p = &ret->p[ret->n++];

        snprintf(p->name, sizeof p->name, "%s@%u", c->entries[i].name.id,
                 c->entries[i].name.version);
        p->hash = hash_profile(&c->entries[i]);
    }
}

static const struct profile_print *find_print(const struct profile_prints *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->p[i].name, name) == 0)
            return &list->p[i];
    return NULL;
}

/* Names in `list` that `other` has not or, with `both`, that it has with another content. */
static struct json_strs compare_prints(const struct profile_prints *list,
                                       const struct profile_prints *other, bool both,
                                       struct arena *a)
{
    const char **names = arena_array(a, list->n, sizeof *names);
    size_t n = 0;

    for (size_t i = 0; names && i < list->n; i++) {
        const struct profile_print *found = find_print(other, list->p[i].name);

        if (both ? found && found->hash != list->p[i].hash : !found)
            names[n++] = list->p[i].name;
    }
    return (struct json_strs){ names, n };
}

static int reload_profiles(struct call *c, struct reload_answer *ret, struct err *e)
{
    struct profile_prints before, after;
    int r;

    print_catalog(control_catalog(c->api->control), &c->arena, &before);
    r = control_reload_profiles(c->api->control, e);
    if (r < 0)
        return r;
    ret->catalog = control_catalog(c->api->control);
    print_catalog(ret->catalog, &c->arena, &after);
    ret->profiles = ret->catalog->n;
    ret->added = compare_prints(&after, &before, false, &c->arena);
    ret->removed = compare_prints(&before, &after, false, &c->arena);
    ret->changed = compare_prints(&after, &before, true, &c->arena);
    return 0;
}

static const struct json_field file_problem_fields[] = {
    { "file", JSON_KIND_TEXT, JSON_AT(struct catalog_problem, file), .required = true },
    { "message", JSON_KIND_CHARS, JSON_AT(struct catalog_problem, err.msg), .required = true },
};
static const struct json_shape file_problem_answer = { "FileProblem",
                                                       JSON_FIELDS(file_problem_fields) };

static void write_file_problems(struct json_writer *w, const void *answer)
{
    const struct catalog *c = ((const struct reload_answer *)answer)->catalog;

    for (size_t i = 0; i < c->problem_count; i++)
        json_put_shape(w, &file_problem_answer, &c->problems[i]);
}

#undef AT
#define AT(member) JSON_AT(struct reload_answer, member)
#define PROFILE_RELOAD_FIELDS                                                                      \
    { "profiles", JSON_KIND_UINT, AT(profiles), .required = true, .doc = "How many there are." },  \
        { "added", JSON_KIND_TEXTS, AT(added), .required = true },                                 \
        { "removed", JSON_KIND_TEXTS, AT(removed), .required = true },                             \
        { "changed", JSON_KIND_TEXTS, AT(changed), .required = true },                             \
    {                                                                                              \
        "problems", JSON_KIND_OBJECTS, .required = true, .schema = "FileProblem",                  \
                                       .items = write_file_problems                                \
    }

static const struct json_field profile_reload_fields[] = { PROFILE_RELOAD_FIELDS };
static const struct json_shape profile_reload_answer = { "ProfileReload",
                                                         JSON_FIELDS(profile_reload_fields) };

static const struct json_field daemon_reload_fields[] = {
    PROFILE_RELOAD_FIELDS,
    { "policy", JSON_KIND_TEXT, AT(policy), .doc = "Version of the policy for tools in force." },
    { "policy_problem", JSON_KIND_TEXT, AT(policy_problem),
      .doc = "Why its file was not taken; the old one stays in force." },
};
static const struct json_shape daemon_reload_answer = { "Reload",
                                                        JSON_FIELDS(daemon_reload_fields) };

static void rest_reload_profiles(struct call *c)
{
    struct reload_answer a = { 0 };
    struct err e;

    if (reload_profiles(c, &a, &e) < 0)
        call_fail(c, &e);
    else
        call_answer_as(c, 200, &profile_reload_answer, &a);
}

static void rest_reload_daemon(struct call *c)
{
    struct reload_answer a = { 0 };
    const struct trust_policy *p;
    struct err e, policy = { 0 };

    if (trust_reload(c->api->trust, &policy) < 0)
        a.policy_problem = policy.msg;
    p = trust_current(c->api->trust);
    a.policy = p->bundle ? p->bundle->version : NULL;
    if (reload_profiles(c, &a, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    if (c->api->daemon->reload)
        c->api->daemon->reload(c->api->daemon->user);
    call_answer_as(c, 200, &daemon_reload_answer, &a);
}

const struct route routes_daemon[] = {
    { H1_GET, VERB_ADMIN, "/v1/daemon", ROUTE_ADMIN, rest_show_daemon, "Status of the daemon",
      .answer = "Daemon" },
    { H1_POST, VERB_ADMIN, "/v1/daemon/reload", ROUTE_ADMIN, rest_reload_daemon,
      "Read profiles, policy, hub headers and certificate again", .answer = "Reload" },
    { H1_POST, VERB_ADMIN, "/v1/profiles/reload", ROUTE_ADMIN, rest_reload_profiles,
      "Read the profiles again", .answer = "ProfileReload" },
    { .path = NULL },
};

const struct json_shape *const answers_daemon[] = { &daemon_answer, &file_problem_answer,
                                                    &profile_reload_answer, &daemon_reload_answer,
                                                    NULL };
