/* SPDX-License-Identifier: Apache-2.0 */
#include "control/sandbox/resources.h"

#include "control/owner/owner_share.h"
#include "control/plane/plane.h"
#include "control/sandbox/spec.h"

enum { AMOUNTS = 4 };

/* In the units of their names; processors in thousandths. */
struct amounts {
    uint64_t n[AMOUNTS];
};

static const struct {
    const char *member, *limit; /* of the request; of the configuration */
    unsigned part;              /* of what is shown */
} amounts[AMOUNTS] = {
    { "memory_mb", "memory", 1 },
    { "disk_mb", "disk", 1 },
    { "pids", "pids", 1 },
    { "cpu", "cpu", 1000 },
};

static uint64_t to_milli(double cpu)
{
    return (uint64_t)(cpu * 1000 + 0.5);
}

static struct amounts amounts_of_profile(const struct profile *p)
{
    return (struct amounts){ { p->resources.memory_mb, p->resources.disk_mb, p->resources.pids,
                               profile_cpu_milli(p) } };
}

static struct amounts amounts_of_request(const struct create_request *q)
{
    const __typeof__(q->settings.resources) *r = &q->settings.resources;

    return (struct amounts){ { r->memory_mb, r->disk_mb, r->pids, to_milli(r->cpu) } };
}

/* 0: not configured. */
static struct amounts amounts_of_config(const struct control *c)
{
    const __typeof__(c->config->limits.sandbox) *l = &c->config->limits.sandbox;

    return (struct amounts){ { l->memory >> 20, l->disk >> 20, l->pids, to_milli(l->cpu) } };
}

/* The most that any profile has: a request could name that profile. */
static uint64_t find_largest_amount(const struct control *c, size_t i)
{
    uint64_t most = 0;

    for (size_t k = 0; k < c->catalog->n; k++) {
        const struct profile *p = c->catalog->entries[k].profile;
        uint64_t has = p ? amounts_of_profile(p).n[i] : 0;

        most = has > most ? has : most;
    }
    return most;
}

/* Denies a request that asks for more than the caller may have: more than the profile has, than
 * limits.sandbox allows and, where that is not configured, than any profile has. Administrators on
 * the unix socket may have any amount. */
static int limit_resources_of_request(const struct control *c, const struct caller *who,
                                      const struct profile *p, const struct create_request *q,
                                      struct err *e)
{
    const struct account a = account_of(c, who->owner, who->family);
    const struct amounts asked = amounts_of_request(q), own = amounts_of_profile(p),
                         configured = amounts_of_config(c);

    for (size_t i = 0; !a.exempt && i < AMOUNTS; i++) {
        uint64_t most = configured.n[i];

        if (asked.n[i] <= own.n[i])
            continue;
        most = most ? most : find_largest_amount(c, i);
        most = most > own.n[i] ? most : own.n[i];
        if (asked.n[i] > most)
            return err_set(e, ERR_DENIED,
                           "resources.%s: %g is more than %g, the most that a request may ask for "
                           "(limits.sandbox.%s)",
                           amounts[i].member, (double)asked.n[i] / amounts[i].part,
                           (double)most / amounts[i].part, amounts[i].limit);
    }
    return 0;
}

static int find_own_profile(struct control *c, const struct create_request *q, struct profile **ret,
                            struct err *e)
{
    const char *name = q->profile ? q->profile : CATALOG_DEFAULT_PROFILE;
    const struct backend_ops *ops;
    int r = catalog_find(c->catalog, str_from(name), ret, e);

    if (r >= 0 && !control_backend(c, (*ret)->extension, &ops)) {
        r = err_set(e, ERR_UNSUPPORTED, "%s needs %s, which is not part of this build", (*ret)->id,
                    (*ret)->extension);
        profile_unref(take_ptr(*ret));
    }
    return r;
}

int resources_find_profile(struct control *c, const struct caller *who,
                           const struct create_request *q, struct profile **ret, struct err *e)
{
    AUTO(profile_unrefp_) struct profile *own = NULL;
    int r = find_own_profile(c, q, &own, e);

    r = r < 0 ? r : limit_resources_of_request(c, who, own, q, e);
    return r < 0 ? r : spec_profile(own, q, ret, e);
}
