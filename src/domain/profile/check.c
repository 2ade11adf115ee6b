/* What the table of fields cannot say: how words look, and what does not go together. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/own.h"
#include "policy/egress_sources.h"
#include "profile/profile.h"
#include "profile/words.h"
#include "yaml/file.h"

struct check {
    struct profile *p;
    const struct json *document;
    struct arena *arena;
    struct err *e;
    const struct json_mistakes *all; /* NULL: the first mistake is the last */
    int *first;
};

#define fail(c, path, ...) yaml_file_fail((c)->document, (path), (c)->e, __VA_ARGS__)

/* Texts, and lists of texts, that have to look like something. */
#define TEXT(...) WORD_TEXT(struct profile, __VA_ARGS__)
#define LIST(...) WORD_LIST(struct profile, __VA_ARGS__)
static const struct word_rule text_rules[] = {
    TEXT("id", id, word_profile, "'profile.NAME', NAME of a-z, 0-9 and '-'"),
    TEXT("extension", extension, word_extension, "'ext.NAME', NAME of a-z, 0-9 and '-'"),
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

/* Tells a mistake and goes on, where all of them are wanted. */
static int tell_mistake(const struct check *c, int r)
{
    if (r >= 0 || !c->all)
        return r;
    c->all->each(c->all->user, c->e);
    *c->first = *c->first ? *c->first : r;
    return 0;
}

static int check_texts(const struct check *c)
{
    char path[WORD_RULE_PATH];
    int r = 0;

    for (size_t i = 0; r >= 0 && i < COUNT_OF(text_rules); i++) {
        const char *wanted = word_rules_broken(&text_rules[i], 1, c->p, path);

        if (wanted)
            r = tell_mistake(c, fail(c, path, "must be %s", wanted));
    }
    return r;
}

static int check_env(const struct check *c)
{
    char path[64];
    int r = 0;

    for (size_t i = 0; r >= 0 && i < c->p->env.n; i++) {
        const char *name = c->p->env.p[i].key;

        snprintf(path, sizeof path, "env.%s", name);
        if (!word_variable(str_from(name)))
            r = tell_mistake(c, fail(c, path, "a variable's name has letters, digits and '_'"));
    }
    return r;
}

static int check_ttl(const struct check *c)
{
    if (c->p->ttl.usual <= c->p->ttl.max)
        return 0;
    return fail(c, "ttl.default", "must not be longer than ttl.max, which is %" PRId64 "s",
                c->p->ttl.max / NS_PER_S);
}

static int check_resources(const struct check *c)
{
    return c->p->resources.cpu >= 0.01 ? 0 : fail(c, "resources.cpu", "must be at least 0.01");
}

static int check_pool(const struct check *c)
{
    if (c->p->pool.min <= c->p->pool.max)
        return 0;
    return fail(c, "pool.min", "must not be more than pool.max, which is %" PRIu32, c->p->pool.max);
}

/* What the backends that run here can give. What others claim is for them to say. */
static const struct {
    const char *extension;
    unsigned levels;
} offers[] = {
    { "ext.local", 1u << ISOLATION_PROCESS | 1u << ISOLATION_CONTAINER },
    { "ext.compose-ssh", 1u << ISOLATION_CONTAINER },
    { "ext.gvisor", 1u << ISOLATION_GVISOR },
    { "ext.vm-packer", 1u << ISOLATION_MICROVM },
};

static int check_isolation(const struct check *c)
{
    enum profile_isolation level = c->p->isolation.level;

    for (size_t i = 0; i < COUNT_OF(offers); i++) {
        if (strcmp(offers[i].extension, c->p->extension) != 0)
            continue;
        if (offers[i].levels & 1u << level)
            return 0;
        return fail(c, "isolation.level", "%s does not offer this", c->p->extension);
    }
    if (level == ISOLATION_PROCESS)
        return fail(c, "isolation.level", "process is what ext.local offers; %s needs another",
                    c->p->extension);
    return 0;
}

static int check_system(const struct check *c)
{
    if (!c->p->image || !c->p->writable_system)
        return 0;
    return fail(c, "writable_system", "is for sandboxes without an image; an image takes writes");
}

static int check_placement(const struct check *c)
{
    const struct json_strs *fallback = &c->p->placement.fallback;
    char path[64];

    for (size_t i = 0; i < fallback->n; i++) {
        bool twice = c->p->placement.prefer && !strcmp(fallback->p[i], c->p->placement.prefer);

        for (size_t k = 0; k < i; k++)
            twice |= !strcmp(fallback->p[i], fallback->p[k]);
        snprintf(path, sizeof path, "placement.fallback[%zu]", i);
        if (twice)
            return fail(c, path, "is tried already");
    }
    return 0;
}

static int check_egress(const struct check *c)
{
    return egress_from_profile(&c->p->network.egress, c->document, c->arena, &c->p->network.policy,
                               c->e);
}

int profile_check_(struct profile *p, const struct json *document, struct arena *a,
                   const struct json_mistakes *all, struct err *e)
{
    static int (*const checks[])(const struct check *) = {
        check_texts,     check_env,    check_ttl,       check_resources, check_pool,
        check_isolation, check_system, check_placement, check_egress,
    };
    int r = 0, first = 0;
    struct check c = {
        .p = p, .document = document, .arena = a, .e = e, .all = all, .first = &first
    };

    for (size_t i = 0; i < COUNT_OF(checks) && r >= 0; i++)
        r = tell_mistake(&c, checks[i](&c));
    return r < 0 ? r : first;
}
