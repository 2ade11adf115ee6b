/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/core/template.h"

#include <stdio.h>

#include "edge/core/built.h"
#include "edge/core/internal.h"
#include "control/image/images.h"
#include "control/snapshot/snapshots.h"
#include "lib/json/reader.h"

#define PROFILE "profile."

const char *template_profile_name(const char *id)
{
    return strncmp(id, PROFILE, strlen(PROFILE)) == 0 ? id + strlen(PROFILE) : id;
}

const char *template_profile_id(struct call *c, const char *name)
{
    char text[TEMPLATE_NAME_MAX + sizeof PROFILE];

    if (template_profile_name(name) != name)
        return name;
    snprintf(text, sizeof text, PROFILE "%s", name);
    return arena_dup(&c->own, str_from(text));
}

/* Images are visible to all callers. */
static int fill_image_template(struct call *c, const char *name, struct create_request *ret,
                               struct err *e)
{
    const struct image *im;

    if (images_find(c->api->control, str_from(name), &im, NULL) < 0)
        return err_set(e, ERR_NOT_FOUND,
                       "template '%.80s' not found: there is no profile, template, snapshot or "
                       "image of that name",
                       name);
    ret->image = arena_dup(&c->own, str_from(im->ref));
    ret->profile = TEMPLATE_IMAGE_PROFILE;
    return 0;
}

/* Profiles have precedence, so that a snapshot's name cannot hide a profile from other callers. */
int template_fill_request(struct call *c, const char *name, struct create_request *ret,
                          struct err *e)
{
    AUTO(profile_unrefp_) struct profile *p = NULL;
    const char *id = template_profile_id(c, name);
    const struct snapshot *s;
    const struct built *b;

    if (catalog_find(control_catalog(c->api->control), str_from(id), &p, NULL) >= 0) {
        ret->profile = id;
        return 0;
    }
    b = built_find(c, str_from(name));
    s = snapshot_find(c->api->control, &c->caller, str_from(b ? b->snapshot : name));
    if (!s)
        return fill_image_template(c, name, ret, e);
    ret->snapshot = arena_dup(&c->own, str_from(s->record.id));
    ret->profile = arena_dup(&c->own, str_from(s->record.profile));
    if (b)
        ret->env = b->env;
    if (b && !json_map_copy(&ret->env, &c->arena))
        return err_set(e, ERR_TOO_BIG,
                       "the variables of template '%.80s' need more memory than the %zu bytes of a "
                       "request; build it with fewer of them",
                       name, c->arena.max);
    return 0;
}

/* Whether the stored request names the image of the profile itself. */
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

const char *template_source_name(const struct api *a, const struct sandbox_record *r,
                                 const struct create_request *q)
{
    if (q->snapshot)
        return q->snapshot;
    return q->image && !is_profiles_own(a, r, q->image) ? q->image
                                                        : template_profile_name(r->profile);
}

const char *template_find_id(const struct api *a, const struct sandbox_record *r,
                             const struct create_request *q, const char **ret_alias)
{
    const struct built *b = q->snapshot ? built_of_snapshot(a, q->snapshot) : NULL;

    *ret_alias = b ? b->name : template_source_name(a, r, q);
    return b ? b->id : *ret_alias;
}

struct create_request template_original_request(const struct sandbox_record *r, struct arena *a)
{
    const struct json_limits limits = { .bytes = REQUEST_JSON_MAX, .depth = 24 };
    struct create_request q = { 0 };
    const struct json *v;

    if (json_read(r->request, limits, a, &v, NULL) >= 0)
        (void)create_request_read(v, &q, a, NULL);
    return q;
}
