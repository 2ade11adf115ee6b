/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/defaults.h"

#include <string.h>

#include "base/own.h"
#include "domain/model/process.h"
#include "lib/ipc/environment.h"

/* Translates "root" to "0": an image without /etc/passwd has a root, too. */
static const char *root_as_number(const char *user)
{
    return strcmp(user, "root") == 0 ? "0" : user;
}

/* The default user. A profile always has a user; an image's user takes precedence over the
 * profile's default, root. */
const char *backend_usual_user(const struct backend_spec *s)
{
    const char *user = root_as_number(s->profile->user ? s->profile->user : "0");

    return s->image && s->image->user[0] && strcmp(user, "0") == 0 ? root_as_number(s->image->user)
                                                                   : user;
}

/* The variables of profile, image and network; NULL: too many. */
static const char **merge_default_variables(const struct backend_spec *s, struct arena *a)
{
    const struct json_map *profile = &s->profile->env;
    struct json_strs image = s->image ? s->image->env : (struct json_strs){ 0 };
    const char **own = process_variables(profile, a);
    const char **list =
        arena_array(a, profile->n + image.n + ENVIRONMENT_PROXY_COUNT + 1, sizeof *list);
    size_t n;

    if (!own || !list)
        return NULL;
    n = environment_append(list, 0, own, profile->n);
    n = environment_append(list, n, image.p, image.n);
    if (s->egress)
        environment_append(list, n, environment_proxy, ENVIRONMENT_PROXY_COUNT);
    return list;
}

static int add_default_string(struct buf *b, const char *s)
{
    return buf_add(b, (struct str){ s, strlen(s) + 1 });
}

int backend_defaults_write(const struct backend_spec *s, struct buf *ret, struct err *e)
{
    struct arena a AUTO(arena_done) = ARENA_INIT(8 * BACKEND_DEFAULTS_MAX);
    const char *workdir = s->profile->workdir ? s->profile->workdir
                          : s->image          ? s->image->workdir
                                              : "";
    const char **variables = merge_default_variables(s, &a);
    int r = variables ? add_default_string(ret, backend_usual_user(s)) : -(int)ERR_TOO_BIG;

    if (r >= 0)
        r = add_default_string(ret, workdir);
    for (size_t i = 0; r >= 0 && variables[i]; i++)
        r = add_default_string(ret, variables[i]);
    return r < 0 ? err_set(e, ERR_TOO_BIG,
                           "the environment of profile and image is larger than %d bytes",
                           BACKEND_DEFAULTS_MAX)
                 : 0;
}

const char *backend_usual_cwd(struct str defaults)
{
    return defaults.p + strlen(defaults.p) + 1;
}

bool backend_defaults_valid(struct str defaults)
{
    return defaults.n >= 2 && defaults.p[defaults.n - 1] == '\0' &&
           strlen(defaults.p) + 1 < defaults.n;
}

static const char *next_default(struct str *rest)
{
    const char *s = rest->p;
    size_t n = strlen(s) + 1;

    *rest = (struct str){ rest->p + n, rest->n - n };
    return s;
}

/* Adds the variables of the defaults, and usual ones, to those of the start. */
static int merge_variables(struct str defaults, struct process_start *s, struct arena *a,
                           struct err *e)
{
    size_t n_asked = 0, n_own = 0, n;
    const char **list, **own;

    for (size_t i = 0; i < defaults.n; i++)
        n_own += defaults.p[i] == '\0';
    while (s->envp && s->envp[n_asked])
        n_asked++;
    own = arena_array(a, n_own + 1, sizeof *own);
    list = arena_array(a, n_asked + n_own + ENVIRONMENT_USUAL_COUNT + 1, sizeof *list);
    if (!own || !list)
        return err_set(e, ERR_TOO_BIG,
                       "%zu environment variables need more memory than the allowed %zu bytes",
                       n_asked + n_own, a->max);
    for (size_t i = 0; i < n_own; i++)
        own[i] = next_default(&defaults);
    n = environment_append(list, 0, s->envp, n_asked);
    n = environment_append(list, n, own, n_own);
    environment_append(list, n, environment_usual,
                       s->flags & START_TTY ? ENVIRONMENT_USUAL_COUNT : 1);
    s->envp = list;
    return 0;
}

int backend_start_fill(struct str defaults, const struct process_start *s, struct arena *a,
                       struct process_start *ret, struct err *e)
{
    const char *usual_user = next_default(&defaults), *usual_cwd = next_default(&defaults);

    if ((unsigned)s->what >= START_WHAT_COUNT_ || !s->argv)
        return err_set(e, ERR_BUG, "a start has no arguments or an unknown kind");
    *ret = *s;
    if (!ret->user)
        ret->user = usual_user;
    if (!ret->cwd)
        ret->cwd = usual_cwd;
    return s->what == START_PROGRAM ? merge_variables(defaults, ret, a, e) : 0;
}
