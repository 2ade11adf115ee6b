/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "backends/local/local.h"
#include "lib/ipc/listeners.h"
#include "engine/runtime/user.h"

static int add_default_string(struct buf *b, const char *s)
{
    return buf_add(b, (struct str){ s, strlen(s) + 1 });
}

static int add_default_variable(struct buf *b, const char *name, const char *value)
{
    int r = buf_addf(b, "%s=%s", name, value);

    return r < 0 ? r : buf_add_c(b, '\0');
}

/* Compares names of variables. Programs read proxy variables in upper or lower case, so setting one
 * sets both. */
static bool is_same_variable(const char *a, const char *b, size_t n)
{
    static const char end[] = "_proxy";
    size_t m = sizeof end - 1;

    return strncmp(a, b, n) == 0 ||
           (n > m && strncasecmp(a + n - m, end, m) == 0 && strncasecmp(a, b, n) == 0);
}

static bool profile_has(const struct profile *p, const char *name)
{
    for (size_t i = 0; i < p->env.n; i++)
        if (strlen(p->env.p[i].key) == strlen(name) &&
            is_same_variable(p->env.p[i].key, name, strlen(name)))
            return true;
    return false;
}

static int add_proxy_variables(const struct profile *p, struct buf *ret)
{
    static const struct {
        const char *name, *value;
    } variables[] = {
        { "HTTP_PROXY", LISTENERS_PROXY_URL },  { "http_proxy", LISTENERS_PROXY_URL },
        { "HTTPS_PROXY", LISTENERS_PROXY_URL }, { "https_proxy", LISTENERS_PROXY_URL },
        { "ALL_PROXY", LISTENERS_PROXY_URL },   { "all_proxy", LISTENERS_PROXY_URL },
        { "NO_PROXY", LISTENERS_NO_PROXY },     { "no_proxy", LISTENERS_NO_PROXY },
    };
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(variables) && r >= 0; i++)
        if (!profile_has(p, variables[i].name))
            r = add_default_variable(ret, variables[i].name, variables[i].value);
    return r;
}

/* Translates "root" to "0": an image without /etc/passwd has a root, too. */
static const char *root_as_number(const char *user)
{
    return strcmp(user, "root") == 0 ? "0" : user;
}

/* The default user. A profile always has a user; an image's user takes precedence over the
 * profile's default, root. */
const char *local_usual_user(const struct backend_spec *s)
{
    const char *user = root_as_number(s->profile->user ? s->profile->user : "0");

    return s->image && s->image->user[0] && strcmp(user, "0") == 0 ? root_as_number(s->image->user)
                                                                   : user;
}

/* Adds the image's variables that the profile does not set. */
static int add_image_variables(const struct backend_spec *s, struct buf *ret)
{
    int r = 0;

    for (size_t i = 0; s->image && i < s->image->env.n && r >= 0; i++) {
        char name[256];
        struct str key;

        str_cut(str_from(s->image->env.p[i]), '=', &key);
        if (!str_copy(key, name, sizeof name) || !profile_has(s->profile, name))
            r = add_default_string(ret, s->image->env.p[i]);
    }
    return r;
}

int local_defaults_write(const struct backend_spec *s, struct buf *ret, struct err *e)
{
    const struct profile *p = s->profile;
    const char *workdir = p->workdir ? p->workdir : s->image ? s->image->workdir : "";
    int r = add_default_string(ret, local_usual_user(s));

    if (r >= 0)
        r = add_default_string(ret, workdir);
    for (size_t i = 0; i < p->env.n && r >= 0; i++)
        r = add_default_variable(ret, p->env.p[i].key, p->env.p[i].value);
    if (r >= 0)
        r = add_image_variables(s, ret);
    if (r >= 0 && s->egress)
        r = add_proxy_variables(p, ret);
    return r < 0 ? err_set(e, ERR_TOO_BIG,
                           "the environment of profile and image is larger than %d bytes",
                           LOCAL_DEFAULTS_MAX)
                 : 0;
}

const char *local_usual_cwd(struct str defaults)
{
    return defaults.p + strlen(defaults.p) + 1;
}

bool local_defaults_valid(struct str defaults)
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

/* A list of variables; the first of a name counts. */
struct variables {
    const char **list;
    size_t n;
};

static bool has_listed_variable(const struct variables *v, size_t among, const char *text)
{
    size_t n = strcspn(text, "=");

    for (size_t i = 0; i < among; i++)
        if (is_same_variable(v->list[i], text, n) && v->list[i][n] == '=')
            return true;
    return false;
}

static size_t count_default_strings(struct str text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '\0';
    return n;
}

/* Merges the variables of the request, the profile and the defaults; PID 1 adds HOME, USER and
 * PATH. Variables of the request may be many and are not compared with each other. */
static int merge_variables(struct str profile, const struct backend_start *s, struct arena *a,
                           struct variables *ret, struct err *e)
{
    static const char *const ours[] = { "LANG=C.UTF-8", "TERM=xterm-256color" };
    size_t n = 0, asked, n_ours = s->flags & BACKEND_TTY ? 2 : 1;

    while (s->envp && s->envp[n])
        n++;
    asked = n;
    ret->list = arena_array(a, n + count_default_strings(profile) + n_ours + 1, sizeof *ret->list);
    if (!ret->list)
        return err_set(e, ERR_TOO_BIG, "too many environment variables (%zu)", n);
    for (size_t i = 0; i < n; i++)
        ret->list[i] = s->envp[i];
    while (profile.n) {
        const char *text = next_default(&profile);

        if (!has_listed_variable(ret, asked, text))
            ret->list[n++] = text;
    }
    for (size_t i = 0; i < n_ours; i++)
        if (!has_listed_variable(ret, n, ours[i]))
            ret->list[n++] = ours[i];
    ret->n = n;
    return 0;
}

static const enum control_what operations[BACKEND_WHAT_COUNT_] = {
    [BACKEND_PROGRAM] = CONTROL_PROGRAM, [BACKEND_READ] = CONTROL_READ,
    [BACKEND_WRITE] = CONTROL_WRITE,     [BACKEND_LIST] = CONTROL_LIST_DIR,
    [BACKEND_STAT] = CONTROL_STAT,       [BACKEND_MKDIR] = CONTROL_MKDIR,
    [BACKEND_REMOVE] = CONTROL_REMOVE,   [BACKEND_RENAME] = CONTROL_RENAME,
    [BACKEND_WATCH] = CONTROL_WATCH,     [BACKEND_PACK] = CONTROL_PACK,
    [BACKEND_UNPACK] = CONTROL_UNPACK,   [BACKEND_HOME] = CONTROL_HOME,
    [BACKEND_PERMIT] = CONTROL_PERMIT,   [BACKEND_COMPOSE] = CONTROL_COMPOSE,
    [BACKEND_UPLOAD] = CONTROL_UPLOAD,
};

int local_start_fill(struct str defaults, const struct backend_start *s, struct arena *a,
                     struct supervisor_start *ret, struct err *e)
{
    const char *usual_user = next_default(&defaults), *usual_cwd = next_default(&defaults);
    struct variables v = { 0 };
    struct user u;
    int r;

    if ((unsigned)s->what >= BACKEND_WHAT_COUNT_ || !s->argv)
        return err_set(e, ERR_BUG, "a start has no arguments or an unknown kind");
    r = user_parse(s->user ? s->user : usual_user, &u, e);
    if (r >= 0 && s->what == BACKEND_PROGRAM)
        r = merge_variables(defaults, s, a, &v, e);
    if (r < 0)
        return r;
    *ret = (struct supervisor_start){
        .what = operations[s->what],
        .flags = (s->flags & BACKEND_STDIN ? (uint32_t)CONTROL_STDIN : 0) |
                 (s->flags & BACKEND_TTY ? (uint32_t)CONTROL_TTY : 0) |
                 (s->flags & BACKEND_KEEP ? (uint32_t)CONTROL_KEEP : 0) |
                 (s->flags & BACKEND_WHOLE ? (uint32_t)CONTROL_WHOLE : 0),
        .uid = u.uid,
        .gid = u.gid,
        .user = u.name,
        .mode = s->mode,
        .rows = s->rows,
        .cols = s->cols,
        .timeout_ns = s->timeout_ns,
        .grace_ns = s->grace_ns,
        .cwd = s->cwd ? s->cwd : usual_cwd,
        .argv = s->argv,
        .envp = v.list,
        .cookie = s->cookie,
        .lent = s->lent,
        .n_lent = s->n_lent,
    };
    return 0;
}
