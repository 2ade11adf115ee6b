#include "api/e2b/template.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/e2b/built.h"
#include "api/inside.h"
#include "control/images.h"
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

/* Images are everybody's. */
static int fill_image(struct call *c, const char *name, struct create_request *ret, struct err *e)
{
    const struct image *im;

    if (images_find(c->api->control, str_from(name), &im, NULL) < 0)
        return err_set(e, ERR_NOT_FOUND,
                       "template '%.80s' not found: there is no profile, template, snapshot or "
                       "image of that name",
                       name);
    ret->image = arena_dup(&c->own, str_from(im->ref));
    ret->profile = E2B_IMAGE_PROFILE;
    return 0;
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
        return fill_image(c, name, ret, e);
    ret->snapshot = arena_dup(&c->own, str_from(s->record.id));
    ret->profile = arena_dup(&c->own, str_from(s->record.profile));
    if (b)
        ret->env = b->env;
    if (b && !json_map_copy(&ret->env, &c->arena))
        return err_set(e, ERR_TOO_BIG, "template '%.80s' has too many variables", name);
    return 0;
}

/* A request on record names its image also where that is the profile's. */
static bool is_profiles_own(const struct api *a, const struct sandbox_record *r, const char *image)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    char name[RECORD_NAME_MAX + 24];
    const struct image *im;

    snprintf(name, sizeof name, "%s@%lld", r->profile, (long long)r->profile_version);
    return catalog_find(control_catalog(a->control), str_from(name), &p, NULL) >= 0 && p->image &&
           images_find(a->control, str_from(p->image), &im, NULL) >= 0 &&
           strcmp(im->ref, image) == 0;
}

const char *e2b_template_name(const struct api *a, const struct sandbox_record *r,
                              const struct create_request *q)
{
    if (q->snapshot)
        return q->snapshot;
    return q->image && !is_profiles_own(a, r, q->image) ? q->image : e2b_profile_name(r->profile);
}

const char *e2b_template_id(const struct api *a, const struct sandbox_record *r,
                            const struct create_request *q, const char **ret_alias)
{
    const struct built *b = q->snapshot ? built_of_snapshot(a, q->snapshot) : NULL;

    *ret_alias = b ? b->name : e2b_template_name(a, r, q);
    return b ? b->id : *ret_alias;
}
