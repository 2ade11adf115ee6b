/* SPDX-License-Identifier: Apache-2.0 */
/* POST /files/compose of E2B's envd: concatenates files in the given order into a new one and
 * removes the sources. The sandbox's PID 1 does it: no program of the sandbox runs. */
#include "edge/e2b/internal.h"
#include "base/own.h"
#include "edge/core/file_take.h"

enum { NEW_MODE = 0644 };

struct compose_request {
    struct json_strs sources;
    const char *destination, *user;
};

static const struct json_field fields[] = {
    { "source_paths", JSON_KIND_STRS, JSON_AT(struct compose_request, sources), .required = true,
      .max = START_COMPOSE_MAX },
    { "destination", JSON_KIND_STR, JSON_AT(struct compose_request, destination), .required = true,
      .min = 1 },
    { "username", JSON_KIND_STR, JSON_AT(struct compose_request, user), .max = E2B_USER_MAX },
};

struct composing {
    struct file_take take;
    const char *path;
};

static void write_composed_file(struct json_writer *w, const void *what)
{
    const char *path = what, *slash = strrchr(path, '/');

    json_begin_object(w);
    json_field_text(w, "path", path);
    json_field_text(w, "name", slash + 1);
    json_field_text(w, "type", "file");
    json_end_object(w);
}

static void on_files_composed(struct file_take *t, const struct err *e)
{
    if (e)
        call_fail(t->call, e);
    else
        call_answer(t->call, 200, write_composed_file,
                    container_of(t, struct composing, take)->path);
}

/* The new file's path followed by its sources; NULL if the call was answered or its handler will be
 * called again. */
static const char **read_paths(struct call *c, const struct compose_request *q, const char *user)
{
    const char **paths = call_alloc(c, q->sources.n + 2, sizeof *paths);
    size_t n = q->sources.n + 1;

    paths[0] = q->destination;
    for (size_t i = 0; i < q->sources.n; i++)
        paths[1 + i] = q->sources.p[i];
    for (size_t i = 0; i < n; i++)
        if (!e2b_ensure_home(c, user, str_from(paths[i])))
            return NULL;
    for (size_t i = 0; i < n; i++)
        if (!(paths[i] = e2b_path(c, user, str_from(paths[i]))))
            return NULL;
    return paths;
}

static void compose_files(struct call *c)
{
    struct compose_request q = { 0 };
    struct composing *k;
    const char *user, **paths;

    if (!e2b_read_body(c, fields, COUNT_OF(fields), &q))
        return;
    user = q.user && q.user[0] ? q.user : e2b_file_user(c);
    paths = user ? read_paths(c, &q, user) : NULL;
    if (!paths)
        return;
    if (!q.sources.n) {
        call_fail_with(c, 400, "invalid", "source_paths: must not be empty");
        return;
    }
    k = call_state(c, sizeof *k, NULL);
    k->path = paths[0];
    file_take_start(&k->take, c, START_COMPOSE, paths, user, NEW_MODE, on_files_composed);
}

const struct route routes_envd_compose[] = {
    { H1_POST, VERB_FILES, "/files/compose", ROUTE_JSON, .handle = compose_files },
    { .path = NULL },
};
