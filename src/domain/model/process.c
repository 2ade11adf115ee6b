/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/model/process.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define AT(member) JSON_AT(struct process_request, member)

const char *const process_helper_names[] = { "none", "kernel", "session", "shell", NULL };

const struct run_request run_request_default = {
    .process = { .rows = 24, .cols = 80, .grace_ns = NS_PER_S }
};

const struct json_field process_request_fields[] = {
    { "argv", JSON_KIND_STRS, AT(argv), .min = 1, .max = PROCESS_ARGS_MAX, .required = true,
      .doc = "The program and its arguments." },
    { "env", JSON_KIND_MAP, AT(env), .max = PROCESS_ENV_MAX, .doc = "Variables to set." },
    { "cwd", JSON_KIND_STR, AT(cwd), .max = PATH_MAX - 1,
      .doc = "Working directory, absolute; empty: the user's home." },
    { "user", JSON_KIND_STR, AT(user), .min = 1, .max = 64,
      .doc = "UID, UID:GID or a name inside." },
    { "stdin", JSON_KIND_BOOL, AT(stdin_),
      .doc = "Keeps stdin open for input; otherwise it is at end of file." },
    { "tty", JSON_KIND_BOOL, AT(tty), .doc = "It runs in a terminal." },
    { "rows", JSON_KIND_UINT, AT(rows), .min = 1, .max = 10000, .preset = "24" },
    { "cols", JSON_KIND_UINT, AT(cols), .min = 1, .max = 10000, .preset = "80" },
    { "timeout", JSON_KIND_DURATION, AT(timeout_ns), .min = 0, .max = INT64_C(604800000000000),
      .doc = "Time after which it is terminated; 0: never." },
    { "grace", JSON_KIND_DURATION, AT(grace_ns), .min = 0, .max = INT64_C(60000000000),
      .preset = "1s", .doc = "Time between SIGTERM and SIGKILL." },
    { "tag", JSON_KIND_STR, AT(tag), .min = 1, .max = 256,
      .doc = "A name given by the caller; shown in lists." },
    { "background", JSON_KIND_BOOL, AT(background), .doc = "It outlives this request." },
    EGRESS_REQUEST_FIELD(struct run_request),
    { "image", JSON_KIND_STR, JSON_AT(struct run_request, image), .min = 1, .max = 1024,
      .doc = "A stored image as its root file system." },
    MOUNTS_REQUEST_FIELD(struct run_request),
    REQUEST_LIMIT_FIELDS(struct run_request),
};
/* without egress, image, mounts and three limits */
const size_t process_request_field_count = COUNT_OF(process_request_fields) - 6;
const size_t run_request_field_count = COUNT_OF(process_request_fields);

static size_t text_size(const struct process_request *q)
{
    size_t n = 0;

    for (size_t i = 0; i < q->argv.n; i++)
        n += strlen(q->argv.p[i]) + 1;
    for (size_t i = 0; i < q->env.n; i++)
        n += strlen(q->env.p[i].key) + strlen(q->env.p[i].value) + 2;
    return n;
}

int process_request_check(const struct process_request *q, struct err *e)
{
    if (!q->argv.p[0][0])
        return err_set(e, ERR_INVALID, "argv[0]: must not be empty; give a program");
    if (q->cwd && q->cwd[0] && q->cwd[0] != '/')
        return err_set(e, ERR_INVALID, "cwd: '%s' is not an absolute path", q->cwd);
    for (size_t i = 0; i < q->env.n; i++)
        if (!q->env.p[i].key[0] || strchr(q->env.p[i].key, '='))
            return err_set(e, ERR_INVALID, "env: '%s' is not a valid variable name",
                           q->env.p[i].key);
    if (text_size(q) > PROCESS_TEXT_MAX)
        return err_set(e, ERR_TOO_BIG, "argv and env: more than %d bytes", PROCESS_TEXT_MAX);
    return 0;
}

const char **process_variables(const struct json_map *env, struct arena *a)
{
    const char **list = arena_array(a, env->n + 1, sizeof *list);

    for (size_t i = 0; list && i < env->n; i++) {
        size_t n = strlen(env->p[i].key) + strlen(env->p[i].value) + 2;
        char *text = arena_alloc(a, n);

        if (!text)
            return NULL;
        snprintf(text, n, "%s=%s", env->p[i].key, env->p[i].value);
        list[i] = text;
    }
    return list;
}

int process_request_read(const struct json *v, struct process_request *ret, struct arena *a,
                         struct err *e)
{
    struct process_request q = { 0 };
    int r = json_bind(v, process_request_fields, process_request_field_count, &q, a, e);

    if (r >= 0)
        r = process_request_check(&q, e);
    if (r >= 0)
        *ret = q;
    return r < 0 ? r : 0;
}

int run_request_read(const struct json *v, struct run_request *ret, struct arena *a, struct err *e)
{
    struct run_request q = { 0 };
    int r = json_bind(v, process_request_fields, run_request_field_count, &q, a, e);

    if (r >= 0)
        r = process_request_check(&q.process, e);
    if (r >= 0)
        r = request_settings_check(&q.settings, e);
    if (r >= 0)
        r = request_mounts_check(&q.mounts, e);
    if (r >= 0)
        *ret = q;
    return r < 0 ? r : 0;
}
