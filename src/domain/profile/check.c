/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the table of fields cannot express: the form of names, and fields that contradict
 * each other. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/own.h"
#include "domain/policy/egress_sources.h"
#include "domain/profile/profile.h"
#include "domain/profile/words.h"
#include "lib/yaml/file.h"

struct profile_checker {
    struct profile *p;
    const struct json *document;
    struct arena *arena;
    struct err *e;
    const struct json_mistakes *all; /* NULL: stop at the first mistake */
    int *first;
};

#define fail_profile(c, path, ...) yaml_file_fail((c)->document, (path), (c)->e, __VA_ARGS__)

/* Rules for texts and lists of texts. */
#define TEXT(...) WORD_TEXT(struct profile, __VA_ARGS__)
#define LIST(...) WORD_LIST(struct profile, __VA_ARGS__)
static const struct word_rule text_rules[] = {
    TEXT("id", id, word_profile, "'profile.NAME', NAME of a-z, 0-9 and '-'"),
    TEXT("extension", extension, word_backend, "'ext.NAME', NAME of a-z, 0-9 and '-'"),
    TEXT("image", image, word_image, "a path or reference without blanks"),
    TEXT("workdir", workdir, word_path, "an absolute path without '.', '..' and '//'"),
    TEXT("user", user, word_user, "a user's name, or a number up to 65535"),
    TEXT("route.region", route.region, word_name, "a name of a-z, 0-9 and '-'"),
    TEXT("route.gpu", route.gpu, word_name, "a name of a-z, 0-9 and '-'"),
    TEXT("placement.prefer", placement.prefer, word_place, "a host's name or 'ext.NAME'"),
    LIST("placement.fallback", placement.fallback, word_place, "a host's name or 'ext.NAME'"),
    LIST("setup.secret_refs", setup.secret_refs, word_secret, "a name of letters, digits, _./:-"),
    LIST("kernel.allow", kernel.allow, word_kernel,
         "one of nested-seccomp, socket-filters, page-cache"),
    LIST("caps", caps, word_capability,
         "one of CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETUID, SETGID, KILL"),
};
#undef TEXT
#undef LIST

/* Reports a mistake, and continues if all of them are wanted. */
static int report_mistake(const struct profile_checker *c, int r)
{
    if (r >= 0 || !c->all)
        return r;
    c->all->each(c->all->user, c->e);
    *c->first = *c->first ? *c->first : r;
    return 0;
}

static int check_profile_texts(const struct profile_checker *c)
{
    char path[WORD_RULE_PATH];
    int r = 0;

    for (size_t i = 0; r >= 0 && i < COUNT_OF(text_rules); i++) {
        const char *wanted = word_rules_broken(&text_rules[i], 1, c->p, path);

        if (wanted)
            r = report_mistake(c, fail_profile(c, path, "must be %s", wanted));
    }
    return r;
}

static int check_profile_env(const struct profile_checker *c)
{
    char path[64];
    int r = 0;

    for (size_t i = 0; r >= 0 && i < c->p->env.n; i++) {
        const char *name = c->p->env.p[i].key;

        snprintf(path, sizeof path, "env.%s", name);
        if (!word_variable(str_from(name)))
            r = report_mistake(
                c, fail_profile(c, path, "variable names must consist of letters, digits and '_'"));
    }
    return r;
}

static int check_ttl(const struct profile_checker *c)
{
    if (c->p->ttl.usual <= c->p->ttl.max)
        return 0;
    return fail_profile(c, "ttl.default", "must not be longer than ttl.max, which is %" PRId64 "s",
                        c->p->ttl.max / NS_PER_S);
}

static int check_resources(const struct profile_checker *c)
{
    return c->p->resources.cpu >= 0.01 ? 0
                                       : fail_profile(c, "resources.cpu", "must be at least 0.01");
}

static int check_profile_pool(const struct profile_checker *c)
{
    if (c->p->pool.min <= c->p->pool.max)
        return 0;
    return fail_profile(c, "pool.min", "must not be more than pool.max, which is %" PRIu32,
                        c->p->pool.max);
}

/* Limits of backends. Those of a backend in the registry are the `isolation` of its vector
 * (backends/backend.h), which a test compares. */
static const struct {
    const char *extension;
    unsigned levels;
} offers[] = {
    { "ext.local", 1u << ISOLATION_PROCESS | 1u << ISOLATION_CONTAINER },
    { "ext.compose-ssh", 1u << ISOLATION_CONTAINER },
    { "ext.gvisor", 1u << ISOLATION_GVISOR },
    { "ext.vm-packer", 1u << ISOLATION_MICROVM },
};

static int check_isolation(const struct profile_checker *c)
{
    enum profile_isolation level = c->p->isolation.level;

    for (size_t i = 0; i < COUNT_OF(offers); i++) {
        if (strcmp(offers[i].extension, c->p->extension) != 0)
            continue;
        if (offers[i].levels & 1u << level)
            return 0;
        return fail_profile(c, "isolation.level", "%s does not offer this", c->p->extension);
    }
    if (level == ISOLATION_PROCESS)
        return fail_profile(c, "isolation.level",
                            "ext.local only offers process; %s needs another backend",
                            c->p->extension);
    return 0;
}

static int check_system(const struct profile_checker *c)
{
    if (!c->p->image || !c->p->writable_system)
        return 0;
    return fail_profile(c, "writable_system",
                        "is only for sandboxes without an image; images are always writable");
}

static int check_placement(const struct profile_checker *c)
{
    const struct json_strs *fallback = &c->p->placement.fallback;
    char path[64];

    for (size_t i = 0; i < fallback->n; i++) {
        bool twice = c->p->placement.prefer && !strcmp(fallback->p[i], c->p->placement.prefer);

        for (size_t k = 0; k < i; k++)
            twice |= !strcmp(fallback->p[i], fallback->p[k]);
        snprintf(path, sizeof path, "placement.fallback[%zu]", i);
        if (twice)
            return fail_profile(c, path, "names a place that is already listed");
    }
    return 0;
}

static int check_egress(const struct profile_checker *c)
{
    return egress_from_profile(&c->p->network.egress, c->document, c->arena, &c->p->network.policy,
                               c->e);
}

int profile_check_(struct profile *p, const struct json *document, struct arena *a,
                   const struct json_mistakes *all, struct err *e)
{
    static int (*const checks[])(const struct profile_checker *) = {
        check_profile_texts, check_profile_env,  check_ttl,
        check_resources,     check_profile_pool, check_isolation,
        check_system,        check_placement,    check_egress,
    };
    int r = 0, first = 0;
    struct profile_checker c = {
        .p = p, .document = document, .arena = a, .e = e, .all = all, .first = &first
    };

    for (size_t i = 0; i < COUNT_OF(checks) && r >= 0; i++)
        r = report_mistake(&c, checks[i](&c));
    return r < 0 ? r : first;
}
