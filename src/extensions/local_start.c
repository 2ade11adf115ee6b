#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "extensions/local.h"
#include "runtime/user.h"

static int add_string(struct buf *b, const char *s)
{
    return buf_add(b, (struct str){ s, strlen(s) + 1 });
}

int local_defaults_write(const struct profile *p, struct buf *ret, struct err *e)
{
    int r = add_string(ret, p->user ? p->user : "0");

    if (r >= 0)
        r = add_string(ret, p->workdir ? p->workdir : "");
    for (size_t i = 0; i < p->env.n && r >= 0; i++) {
        r = buf_addf(ret, "%s=%s", p->env.p[i].key, p->env.p[i].value);
        if (r >= 0)
            r = buf_add_c(ret, '\0');
    }
    return r < 0 ? err_set(e, ERR_TOO_BIG, "the profile's environment takes more than %d bytes",
                           LOCAL_DEFAULTS_MAX)
                 : 0;
}

bool local_defaults_valid(struct str defaults)
{
    return defaults.n >= 2 && defaults.p[defaults.n - 1] == '\0' &&
           strlen(defaults.p) + 1 < defaults.n;
}

static const char *next_string(struct str *rest)
{
    const char *s = rest->p;
    size_t n = strlen(s) + 1;

    *rest = (struct str){ rest->p + n, rest->n - n };
    return s;
}

/* A list of variables in which the first of a name counts. */
struct variables {
    const char **list;
    size_t n;
};

static bool has(const struct variables *v, size_t among, const char *text)
{
    size_t n = strcspn(text, "=");

    for (size_t i = 0; i < among; i++)
        if (strncmp(v->list[i], text, n) == 0 && v->list[i][n] == '=')
            return true;
    return false;
}

static size_t count_strings(struct str text)
{
    size_t n = 0;

    for (size_t i = 0; i < text.n; i++)
        n += text.p[i] == '\0';
    return n;
}

/* The request's variables, then the profile's, then ours; HOME, USER and PATH are PID 1's to add.
 * The request's may be many and are not compared with each other. */
static int merge_variables(struct str profile, const struct ext_start *s, struct arena *a,
                           struct variables *ret, struct err *e)
{
    static const char *const ours[] = { "LANG=C.UTF-8", "TERM=xterm-256color" };
    size_t n = 0, asked, n_ours = s->flags & EXT_TTY ? 2 : 1;

    while (s->envp && s->envp[n])
        n++;
    asked = n;
    ret->list = arena_array(a, n + count_strings(profile) + n_ours + 1, sizeof *ret->list);
    if (!ret->list)
        return err_set(e, ERR_TOO_BIG, "%zu variables are too many", n);
    for (size_t i = 0; i < n; i++)
        ret->list[i] = s->envp[i];
    while (profile.n) {
        const char *text = next_string(&profile);

        if (!has(ret, asked, text))
            ret->list[n++] = text;
    }
    for (size_t i = 0; i < n_ours; i++)
        if (!has(ret, n, ours[i]))
            ret->list[n++] = ours[i];
    ret->n = n;
    return 0;
}

static const enum control_what operations[EXT_WHAT_COUNT_] = {
    [EXT_PROGRAM] = CONTROL_PROGRAM, [EXT_READ] = CONTROL_READ,     [EXT_WRITE] = CONTROL_WRITE,
    [EXT_LIST] = CONTROL_LIST_DIR,   [EXT_STAT] = CONTROL_STAT,     [EXT_MKDIR] = CONTROL_MKDIR,
    [EXT_REMOVE] = CONTROL_REMOVE,   [EXT_RENAME] = CONTROL_RENAME, [EXT_WATCH] = CONTROL_WATCH,
    [EXT_PACK] = CONTROL_PACK,       [EXT_UNPACK] = CONTROL_UNPACK,
};

int local_start_fill(struct str defaults, const struct ext_start *s, struct arena *a,
                     struct supervisor_start *ret, struct err *e)
{
    const char *usual_user = next_string(&defaults), *usual_cwd = next_string(&defaults);
    struct variables v = { 0 };
    struct user u;
    int r;

    if ((unsigned)s->what >= EXT_WHAT_COUNT_ || !s->argv)
        return err_set(e, ERR_BUG, "a start without arguments or of an unknown kind");
    r = user_parse(s->user ? s->user : usual_user, &u, e);
    if (r >= 0 && s->what == EXT_PROGRAM)
        r = merge_variables(defaults, s, a, &v, e);
    if (r < 0)
        return r;
    *ret = (struct supervisor_start){
        .what = operations[s->what],
        .flags = (s->flags & EXT_STDIN ? (uint32_t)CONTROL_STDIN : 0) |
                 (s->flags & EXT_TTY ? (uint32_t)CONTROL_TTY : 0) |
                 (s->flags & EXT_KEEP ? (uint32_t)CONTROL_KEEP : 0),
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
    };
    return 0;
}
