#include "api/e2b/template.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/e2b/built.h"
#include "api/inside.h"
#include "control/snapshots.h"

#define PROFILE "profile."

const char *e2b_profile_name(const char *id)
{
    return strncmp(id, PROFILE, strlen(PROFILE)) == 0 ? id + strlen(PROFILE) : id;
}

const char *e2b_profile_id(struct call *c, const char *name)
{
    char text[E2B_TEMPLATE_MAX + sizeof PROFILE];

    if (e2b_profile_name(name) != name)
        return name;
    snprintf(text, sizeof text, PROFILE "%s", name);
    return arena_dup(&c->own, str_from(text));
}

/* Profiles first: nobody takes the name of one away from others by naming a snapshot. */
int e2b_template_fill(struct call *c, const char *name, struct create_request *ret, struct err *e)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    const char *id = e2b_profile_id(c, name);
    const struct snapshot *s;
    const struct built *b;

    if (catalog_find(control_catalog(c->api->control), str_from(id), &p, NULL) >= 0) {
        ret->profile = id;
        return 0;
    }
    b = built_find(c, str_from(name));
    s = snapshot_find(c->api->control, &c->caller, str_from(b ? b->snapshot : name));
    if (!s)
        return err_set(e, ERR_NOT_FOUND, "template '%.80s' not found", name);
    ret->snapshot = arena_dup(&c->own, str_from(s->record.id));
    ret->profile = arena_dup(&c->own, str_from(s->record.profile));
    if (b)
        ret->env = b->env;
    if (b && !json_map_copy(&ret->env, &c->arena))
        return err_set(e, ERR_TOO_BIG, "template '%.80s' has too many variables", name);
    return 0;
}

const char *e2b_template_name(const struct sandbox_record *r, const struct create_request *q)
{
    return q->snapshot ? q->snapshot : e2b_profile_name(r->profile);
}

const char *e2b_template_id(const struct api *a, const struct sandbox_record *r,
                            const struct create_request *q, const char **ret_alias)
{
    const struct built *b = q->snapshot ? built_of_snapshot(a, q->snapshot) : NULL;

    *ret_alias = b ? b->name : e2b_template_name(r, q);
    return b ? b->id : *ret_alias;
}
