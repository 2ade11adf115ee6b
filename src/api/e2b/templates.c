/* E2B's templates, which are our profiles: listed and found, not built. */
#include <stdio.h>

#include "api/e2b/inside.h"
#include "api/e2b/shown.h"
#include "api/e2b/template.h"
#include "api/e2b/write.h"
#include "api/snapshots.h"

static void put_profile(struct json_writer *w, const struct profile *p)
{
    const char *name = e2b_profile_name(p->id);
    const struct e2b_size size = e2b_profile_size(p);
    char build[24];

    snprintf(build, sizeof build, "%u", p->version);
    json_begin_object(w);
    put(w, "templateID", name);
    put(w, "buildID", build);
    put(w, "buildStatus", "ready");
    put_names(w, "aliases", name);
    put_names(w, "names", name);
    e2b_put_size(w, &size);
    put_flag(w, "public", true);
    put(w, "createdAt", "1970-01-01T00:00:00Z"); /* nobody knows; clients want a time */
    put(w, "updatedAt", "1970-01-01T00:00:00Z");
    put_number(w, "spawnCount", 0);
    put_number(w, "buildCount", 1);
    put(w, "envdVersion", E2B_ENVD_VERSION);
    json_end_object(w);
}

/* The highest version of each: the next entry is another's. */
static void write_list(struct json_writer *w, const void *what)
{
    const struct catalog *all = what;

    json_begin_array(w);
    for (size_t i = 0; i < all->n; i++) {
        bool last =
            i + 1 == all->n || strcmp(all->entries[i].name.id, all->entries[i + 1].name.id) != 0;

        if (last && all->entries[i].profile)
            put_profile(w, all->entries[i].profile);
    }
    json_end_array(w);
}

static void list(struct call *c)
{
    call_answer(c, 200, write_list, control_catalog(c->api->control));
}

static void write_alias(struct json_writer *w, const void *what)
{
    const struct profile *p = what;

    json_begin_object(w);
    put(w, "templateID", e2b_profile_name(p->id));
    put_flag(w, "public", true);
    json_end_object(w);
}

static void alias(struct call *c)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    char name[PROFILE_ID_MAX + 16];
    struct err e;

    snprintf(name, sizeof name, "profile.%.*s",
             (int)(c->params[0].n < PROFILE_ID_MAX ? c->params[0].n : PROFILE_ID_MAX),
             c->params[0].p);
    if (catalog_find(control_catalog(c->api->control), str_from(name), &p, &e) < 0)
        call_fail(c, &e);
    else
        call_answer(c, 200, write_alias, p);
}

static void delete_template(struct call *c)
{
    const struct snapshot *s = snapshot_find(c->api->control, &c->caller, c->params[0]);

    if (s)
        snapshot_delete_for(c, s);
    else
        call_fail_with(c, 404, "not_found", "there is no such snapshot or template of yours");
}

static void not_here(struct call *c)
{
    call_fail_with(c, 501, "unsupported", "this sandboxer cannot build templates yet");
}

const struct route routes_e2b_templates[] = {
    { H1_GET, VERB_READ, "/templates", 0, list, .face = &e2b_face },
    { H1_GET, VERB_READ, "/v2/templates", 0, list, .face = &e2b_face },
    { H1_GET, VERB_READ, "/templates/aliases/{alias}", 0, alias, .face = &e2b_face },
    { H1_DELETE, VERB_DESTROY, "/templates/{id}", 0, delete_template, .face = &e2b_face },
    { H1_POST, VERB_CREATE, "/templates", 0, not_here, .face = &e2b_face },
    { H1_POST, VERB_CREATE, "/v2/templates", 0, not_here, .face = &e2b_face },
    { H1_POST, VERB_CREATE, "/v3/templates", 0, not_here, .face = &e2b_face },
    { .path = NULL },
};
