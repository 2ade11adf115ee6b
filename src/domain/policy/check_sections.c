/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the sections of a policy that are not endpoints. */
#include <stdio.h>

#include "base/own.h"
#include "domain/policy/host_pattern.h"
#include "domain/policy/spot.h"

enum { PATH_TEXT_MAX = 4096, PATHS_MAX = 256 };

static const char *path_flaw(const char *path, bool writable)
{
    struct str rest = str_from(path), part;
    bool only_slashes = true;

    if (rest.n == 0 || rest.n > PATH_TEXT_MAX || path[0] != '/')
        return "a path must be absolute, with at most 4096 bytes";
    while (rest.p) {
        rest = str_cut(rest, '/', &part);
        only_slashes &= part.n == 0;
        if (str_eq(part, STR("..")))
            return "a path must not contain '..'";
    }
    return writable && only_slashes ? "the root directory cannot be writable" : NULL;
}

static int check_filesystem_paths(const struct policy_spot *s, const char *field,
                                  const struct json_strs *list, bool writable)
{
    for (size_t i = 0; i < list->n; i++) {
        const char *flaw = path_flaw(list->p[i], writable);
        char where[64];

        snprintf(where, sizeof where, "%s[%zu]", field, i);
        if (flaw)
            return spot_fail(s, where, "%s", flaw);
    }
    return 0;
}

static int check_filesystem(const struct policy_spot *s)
{
    const __typeof__(s->policy->filesystem_policy) *fs = &s->policy->filesystem_policy;
    int r = check_filesystem_paths(s, "filesystem_policy.read_only", &fs->read_only, false);

    if (r >= 0)
        r = check_filesystem_paths(s, "filesystem_policy.read_write", &fs->read_write, true);
    if (r >= 0 && fs->read_only.n + fs->read_write.n > PATHS_MAX)
        return spot_fail(s, "filesystem_policy", "has more than %d paths", PATHS_MAX);
    return r;
}

static int check_identity(const struct policy_spot *s, const char *field, const struct json *v)
{
    uint64_t id = 0;
    bool good = !v || (v->type == JSON_STR && str_eq(v->s, STR("sandbox")));

    if (v && v->type == JSON_INT && v->i > 0)
        id = (uint64_t)v->i;
    else if (v && v->type == JSON_STR && !good && !str_to_u64(v->s, &id))
        id = 0;
    if (good || (id >= 1 && id < UINT32_MAX))
        return 0;
    return spot_fail(s, field, "must be sandbox, or a number from 1 to 4294967294");
}

int policy_check_sections_(const struct policy_spot *s)
{
    const struct egress_policy *p = s->policy;
    int r = check_filesystem(s);

    if (r >= 0)
        r = check_identity(s, "process.run_as_user", p->process.run_as_user);
    if (r >= 0)
        r = check_identity(s, "process.run_as_group", p->process.run_as_group);
    if (r >= 0 && p->has_filesystem_policy)
        r = spot_note(s, "filesystem_policy is ignored; the profile determines access to files");
    if (r >= 0 && p->has_landlock)
        r = spot_note(s, "landlock is ignored; sandboxes always use it if the kernel supports it");
    if (r >= 0 && p->has_process)
        r = spot_note(s, "process is ignored; the profile determines the user");
    return r;
}

/* Whether an endpoint is not inspected although the stage must see all requests. */
static bool meets_skip(const struct policy_spot *s, const struct host_pattern *p)
{
    const struct egress_entry *entries = s->policy->network_policies.p;

    for (size_t i = 0; i < s->policy->network_policies.n; i++) {
        const struct egress_endpoint *eps = entries[i].endpoints.p;

        for (size_t k = 0; k < entries[i].endpoints.n; k++) {
            struct host_pattern other;

            if (eps[k].tls == EGRESS_TLS_SKIP && eps[k].host &&
                !host_pattern_parse(str_from(eps[k].host), &other) &&
                host_pattern_overlap(p, &other))
                return true;
        }
    }
    return false;
}

static int check_selector(const struct policy_spot *s, const struct egress_middleware *m,
                          bool closed)
{
    const struct json_strs *lists[] = { &m->endpoints.include, &m->endpoints.exclude };

    if (m->endpoints.include.n == 0)
        return spot_fail(s, "network_middlewares", "%s: endpoints.include is empty", m->key);
    for (size_t l = 0; l < COUNT_OF(lists); l++)
        for (size_t i = 0; i < lists[l]->n; i++) {
            struct str host = str_from(lists[l]->p[i]);
            struct address address;
            struct host_pattern p;
            const char *flaw =
                address_parse(host, &address) ? "must be a name" : host_pattern_parse(host, &p);

            if (flaw)
                return spot_fail(s, "network_middlewares", "%s: a host %s", m->key, flaw);
            if (l == 0 && closed && meets_skip(s, &p))
                return spot_fail(s, "network_middlewares",
                                 "%s: must see every request, but an endpoint of %s has tls: skip",
                                 m->key, lists[l]->p[i]);
        }
    return 0;
}

static int check_middleware(const struct policy_spot *s, size_t index)
{
    const struct egress_middleware *all = s->policy->network_middlewares.p, *m = &all[index];
    bool closed = !m->on_error || strcmp(m->on_error, "fail_closed") == 0;

    if (!m->middleware || !*m->middleware)
        return spot_fail(s, "network_middlewares", "%s: middleware is required", m->key);
    if (!closed && strcmp(m->on_error, "fail_open") != 0)
        return spot_fail(s, "network_middlewares", "%s: on_error must be fail_closed or fail_open",
                         m->key);
    for (size_t i = 0; i < index; i++)
        if (all[i].order == m->order)
            return spot_fail(s, "network_middlewares", "%s and %s have the same order", all[i].key,
                             m->key);
    return check_selector(s, m, closed);
}

int policy_check_middlewares_(const struct policy_spot *s)
{
    int r = 0;

    for (size_t i = 0; i < s->policy->network_middlewares.n && r >= 0; i++)
        r = check_middleware(s, i);
    if (r >= 0 && s->policy->network_middlewares.n)
        return spot_refuse(s, "network_middlewares",
                           "is not enforced by this version, so it is not accepted");
    return r;
}
