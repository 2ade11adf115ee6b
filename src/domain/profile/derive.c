/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles with some values of a request in the place of their own. */
#include <string.h>

#include "domain/profile/profile.h"
#include "domain/profile/words.h"

static bool is_other_text(const char *asked, const char *own)
{
    return asked && (!own || strcmp(asked, own) != 0);
}

static bool are_other_caps(const struct json_strs *asked, const struct json_strs *own)
{
    bool same = !asked || asked->n == own->n;

    for (size_t i = 0; asked && same && i < own->n; i++)
        same = strcmp(asked->p[i], own->p[i]) == 0;
    return !same;
}

static bool differs_from_profile(const struct profile *p, const struct profile_changes *c)
{
    return (c->cpu != 0 && c->cpu != p->resources.cpu) ||
           (c->memory_mb && c->memory_mb != p->resources.memory_mb) ||
           (c->pids && c->pids != p->resources.pids) ||
           (c->disk_mb && c->disk_mb != p->resources.disk_mb) || is_other_text(c->user, p->user) ||
           is_other_text(c->workdir, p->workdir) || are_other_caps(c->caps, &p->caps);
}

/* A name, UID or UID:GID. */
static bool is_user(struct str s)
{
    struct str uid, gid = str_cut(s, ':', &uid);
    uint64_t n = 0;

    return gid.p ? str_to_u64(uid, &n) && n <= UINT16_MAX && str_to_u64(gid, &n) && n <= UINT16_MAX
                 : word_user(s);
}

static int check_changes(const struct profile_changes *c, struct err *e)
{
    if (c->user && !is_user(str_from(c->user)))
        return err_set(e, ERR_INVALID,
                       "user: '%s' must be a user's name, or UID or UID:GID up to 65535", c->user);
    if (c->workdir && !word_path(str_from(c->workdir)))
        return err_set(e, ERR_INVALID,
                       "workdir: '%s' must be an absolute path without '.', '..' and '//'",
                       c->workdir);
    for (size_t i = 0; c->caps && i < c->caps->n; i++)
        if (!word_capability(str_from(c->caps->p[i])))
            return err_set(e, ERR_INVALID,
                           "caps[%zu]: '%.40s' cannot be granted; CHOWN, DAC_OVERRIDE, FOWNER, "
                           "FSETID, SETUID, SETGID and KILL can",
                           i, c->caps->p[i]);
    return 0;
}

/* "0" is the default that the user of an image replaces; "0:0" is root in any case. */
static const char *explicit_user(const char *user)
{
    return strcmp(user, "0") == 0 || strcmp(user, "root") == 0 ? "0:0" : user;
}

static bool set_changes(struct profile *d, const struct profile_changes *c)
{
    bool good = true;

    if (c->cpu != 0)
        d->resources.cpu = c->cpu;
    if (c->memory_mb)
        d->resources.memory_mb = c->memory_mb;
    if (c->pids)
        d->resources.pids = c->pids;
    if (c->disk_mb)
        d->resources.disk_mb = c->disk_mb;
    if (c->user)
        good = (d->user = arena_dup(&d->arena_, str_from(explicit_user(c->user))));
    if (good && c->workdir)
        good = (d->workdir = arena_dup(&d->arena_, str_from(c->workdir)));
    if (c->caps)
        d->caps = *c->caps;
    return good && (!c->caps || json_strs_copy(&d->caps, &d->arena_));
}

int profile_derive(struct profile *p, const struct profile_changes *c, struct profile **ret,
                   struct err *e)
{
    struct arena a = ARENA_INIT(PROFILE_MEMORY_MAX);
    struct profile *d;
    int r = check_changes(c, e);

    if (r < 0)
        return r;
    if (!differs_from_profile(p, c)) {
        *ret = profile_ref(p);
        return 0;
    }
    d = arena_alloc(&a, sizeof *d);
    if (!d)
        return err_set(e, ERR_TOO_BIG, "the profile needs more memory than is allowed");
    *d = *p;
    d->arena_ = a;
    d->refs_ = 1;
    d->base_ = profile_ref(p);
    if (!set_changes(d, c)) {
        profile_unref(d);
        return err_set(e, ERR_TOO_BIG, "the profile needs more memory than is allowed");
    }
    *ret = d;
    return 0;
}
