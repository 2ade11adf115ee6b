/* /files/compose of E2B's envd: files become one, in their order, and are gone then. */
#include <stdlib.h>

#include "api/e2b/inside.h"
#include "api/e2b/write.h"
#include "api/file_take.h"

enum { SOURCES_MAX = 1024, ARGS_BEFORE = 5 };

/* The new file takes its place when it is whole. What goes wrong is the last line it writes. */
static const char script[] =
    "exec 2>&1; d=$1; shift; for f; do [ -f \"$f\" ] || { echo \"missing $f\"; exit 1; }; done\n"
    "mkdir -p \"${d%/*}/\" && t=$(mktemp \"$d.XXXXXX\") || exit 1\n"
    "cat -- \"$@\" >\"$t\" && chmod 0644 \"$t\" && mv -fT -- \"$t\" \"$d\" || { rm -f -- \"$t\"; "
    "exit 1; "
    "}\n"
    "for f; do [ \"$f\" -ef \"$d\" ] || rm -f -- \"$f\"; done";

struct compose_request {
    struct json_strs sources;
    const char *destination, *user;
};

static const struct json_field fields[] = {
    { "source_paths", JSON_KIND_STRS, JSON_AT(struct compose_request, sources), .required = true,
      .max = SOURCES_MAX },
    { "destination", JSON_KIND_STR, JSON_AT(struct compose_request, destination), .required = true,
      .min = 1 },
    { "username", JSON_KIND_STR, JSON_AT(struct compose_request, user), .max = E2B_USER_MAX },
};

struct composing {
    struct file_take take;
    const char *path;
};

static void composing_end(struct call *c)
{
    struct composing *k = c->state;

    file_take_done(&k->take);
    free(k);
}

static void write_made(struct json_writer *w, const void *what)
{
    const char *path = what, *slash = strrchr(path, '/');

    json_begin_object(w);
    put(w, "path", path);
    put(w, "name", slash + 1);
    put(w, "type", "file");
    json_end_object(w);
}

static void composed(struct file_take *t, const struct err *e)
{
    struct composing *k = container_of(t, struct composing, take);
    struct str said = str_trim(buf_str(&t->data));
    struct err why;

    if (!e) {
        call_answer(t->call, 200, write_made, k->path);
        return;
    }
    if (said.n) {
        (void)err_set(&why, str_starts(said, STR("missing ")) ? ERR_NOT_FOUND : ERR_INVALID,
                      STR_FMT, STR_ARG(said));
        e = &why;
    }
    call_fail(t->call, e);
}

static bool all_at_home(struct call *c, const struct compose_request *q, const char *user)
{
    bool at_home = e2b_at_home(c, user, str_from(q->destination));

    for (size_t i = 0; at_home && i < q->sources.n; i++)
        at_home = e2b_at_home(c, user, str_from(q->sources.p[i]));
    return at_home;
}

/* NULL: it is answered. */
static const char **read_paths(struct call *c, const struct compose_request *q, const char *user,
                               const char *path)
{
    const char **argv = arena_array(&c->own, ARGS_BEFORE + q->sources.n + 1, sizeof *argv);
    const char *const head[] = { "/bin/sh", "-c", script, "compose", path };

    if (!argv)
        abort(); /* they are few */
    for (size_t i = 0; i < COUNT_OF(head); i++)
        argv[i] = head[i];
    for (size_t i = 0; i < q->sources.n; i++) {
        argv[ARGS_BEFORE + i] = e2b_path(c, user, str_from(q->sources.p[i]));
        if (!argv[ARGS_BEFORE + i])
            return NULL;
    }
    return argv;
}

static void compose(struct call *c)
{
    struct compose_request q = { 0 };
    struct composing *k;
    const char *user, *path, **argv;
    struct err e;

    if (e2b_bind(c, c->json, fields, COUNT_OF(fields), &q, &e) < 0) {
        call_fail(c, &e);
        return;
    }
    user = q.user && q.user[0] ? q.user : e2b_file_user(c);
    if (!user || !all_at_home(c, &q, user))
        return;
    path = e2b_path(c, user, str_from(q.destination));
    argv = path ? read_paths(c, &q, user, path) : NULL;
    if (!argv)
        return;
    if (!q.sources.n) {
        call_fail_with(c, 400, "invalid", "source_paths: is empty");
        return;
    }
    k = calloc(1, sizeof *k);
    if (!k)
        abort();
    k->path = path;
    c->state = k;
    c->on_end = composing_end;
    file_take_start(&k->take, c, EXT_PROGRAM, argv, user, 0, composed);
}

const struct route routes_envd_compose[] = {
    { H1_POST, VERB_FILES, "/files/compose", ROUTE_JSON, compose, .face = &envd_face },
    { .path = NULL },
};
