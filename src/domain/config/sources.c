/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/config/sources.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "domain/config/paths.h"
#include "lib/yaml/file.h"

static const struct json_limits limits = {
    .bytes = CONFIG_BYTES_MAX,
    .depth = CONFIG_DEPTH_MAX,
    .places = true,
};

/* Fields that identify root's daemon and cannot apply to another daemon. */
static const char *const daemons_own[] = { "listen", "listen_unencrypted",
                                           "domain", "socket",
                                           "state",  "user" };

static const struct override {
    const char *variable, *field;
    size_t offset;
    bool skip_relative;       /* ignore a relative path, as other users of the state path do */
    const char *const *names; /* of an enumeration; NULL: a text */
} overrides[] = {
    { "SANDBOXER_SOCKET", "socket.path", offsetof(struct config, socket.path), false, NULL },
    { "SANDBOXER_STATE", "state", offsetof(struct config, state), true, NULL },
    { "SANDBOXER_HUB_URL", "hub.url", offsetof(struct config, hub.url), false, NULL },
    { "SANDBOXER_HOST", "host", offsetof(struct config, host), false, NULL },
    { "BOJ_POLICY_BUNDLE", "trust.bundle", offsetof(struct config, trust.bundle), false, NULL },
    { "BOJ_POLICY_MODE", "trust.mode", offsetof(struct config, trust.mode), false,
      config_trust_modes },
    { "BOJ_POLICY_FAIL_MODE", "trust.failure", offsetof(struct config, trust.failure), false,
      config_trust_failures },
};

static const char *override_value(const struct override *o)
{
    const char *value = getenv(o->variable);

    if (!value || !value[0] || (o->skip_relative && value[0] != '/'))
        return NULL;
    return value;
}

static int fail_config_memory(struct err *e)
{
    return err_set(e, ERR_TOO_BIG, "the configuration needs more memory than is allowed");
}

/* ---- files ---- */

/* Names the file in a message; of a long path the end is kept, which is more informative. */
static int wrap_file(struct err *e, int r, const char *path)
{
    enum { SHOWN = 80 };
    size_t n = strlen(path);

    return err_wrap(e, r, "%s%s", n > SHOWN ? "…" : "", n > SHOWN ? path + n - SHOWN : path);
}

static int without_daemons_own(const struct json **document, struct arena *a, struct err *e)
{
    struct json *all = arena_alloc(a, sizeof *all);
    struct json *members = arena_array(a, (*document)->list.n, sizeof *members);

    if (!all || !members)
        return fail_config_memory(e);
    *all = **document;
    all->list.p = members;
    all->list.n = 0;
    for (const struct json *m = json_first(*document); m != json_end(*document); m++) {
        bool own = false;

        for (size_t i = 0; i < COUNT_OF(daemons_own); i++)
            own |= str_eq(m->key, str_from(daemons_own[i]));
        if (!own)
            members[all->list.n++] = *m;
    }
    *document = all;
    return 0;
}

/* Each file must be valid by itself, so that an error is reported for the file that contains it. */
static int read_config_source(struct config_source *s, struct arena *a, struct err *e)
{
    struct config alone = { 0 };
    const struct json *document;
    int r = yaml_file_read(AT_FDCWD, s->path, 0, limits, a, &document, e);

    if (r == -ERR_NOT_FOUND && !s->required)
        return 0;
    if (r < 0)
        return r;
    if (document->type == JSON_NULL)
        return 0; /* only comments */
    r = json_bind(document, config_fields, config_field_count, &alone, a, e);
    if (r >= 0 && s->foreign)
        r = without_daemons_own(&document, a, e);
    if (r < 0)
        return r;
    s->document = document;
    return 0;
}

/* ---- merging ---- */

static int merge_json_objects(const struct json *under, const struct json *over, struct arena *a,
                              struct json *ret, struct err *e)
{
    size_t n = 0;
    struct json *members;

    *ret = *over;
    if (under->type != JSON_OBJECT || over->type != JSON_OBJECT)
        return 0;
    members = arena_array(a, under->list.n + over->list.n, sizeof *members);
    if (!members)
        return fail_config_memory(e);
    for (const struct json *m = json_first(under); m != json_end(under); m++)
        if (!json_get(over, m->key))
            members[n++] = *m;
    for (const struct json *m = json_first(over); m != json_end(over); m++) {
        const struct json *below = json_get(under, m->key);
        int r = below ? merge_json_objects(below, m, a, &members[n], e) : 0;

        if (r < 0)
            return r;
        if (!below)
            members[n] = *m;
        n++;
    }
    ret->list.p = members;
    ret->list.n = n;
    return 0;
}

static int merge_all(const struct sources *s, struct arena *a, struct json *ret, struct err *e)
{
    int r = 0;

    *ret = (struct json){ .type = JSON_OBJECT };
    for (size_t i = 0; i < s->n && r >= 0; i++) {
        struct json under = *ret;

        if (s->files[i].document)
            r = merge_json_objects(&under, s->files[i].document, a, ret, e);
    }
    return r;
}

/* ---- variables and default paths ---- */

static int apply_overrides(struct config *c, struct arena *a, struct err *e)
{
    for (size_t i = 0; i < COUNT_OF(overrides); i++) {
        const char *value = override_value(&overrides[i]);
        const char *copy = value ? arena_dup(a, str_from(value)) : NULL;

        if (!value)
            continue;
        if (overrides[i].names) {
            unsigned word = 0;

            while (overrides[i].names[word] && strcmp(overrides[i].names[word], value) != 0)
                word++;
            if (!overrides[i].names[word]) /* an error, not the default */
                return err_set(e, ERR_INVALID, "%s: '%.40s' is not a valid value of %s",
                               overrides[i].variable, value, overrides[i].field);
            memcpy((char *)c + overrides[i].offset, &word, sizeof word);
            continue;
        }
        if (!copy)
            return fail_config_memory(e);
        memcpy((char *)c + overrides[i].offset, &copy, sizeof copy);
    }
    return 0;
}

static int fill_places(struct config *c, struct arena *a, struct err *e)
{
    char path[PATH_MAX];
    int r = 0;

    if (!c->state) {
        r = paths_state(path, sizeof path, e);
        c->state = r < 0 ? NULL : arena_dup(a, str_from(path));
    }
    if (c->state && !c->socket.path) {
        r = paths_socket(c->state, path, sizeof path, e);
        c->socket.path = r < 0 ? NULL : arena_dup(a, str_from(path));
    }
    return r < 0 ? r : c->state && c->socket.path ? 0 : fail_config_memory(e);
}

int sources_load(struct sources *s, struct config *ret, struct arena *a, struct err *e)
{
    struct config c = { 0 };
    struct json all;
    int r = 0;

    for (size_t i = 0; i < s->n && r >= 0; i++)
        r = wrap_file(e, read_config_source(&s->files[i], a, e), s->files[i].path);
    if (r >= 0)
        r = merge_all(s, a, &all, e);
    if (r >= 0)
        r = json_bind(&all, config_fields, config_field_count, &c, a, e);
    if (r >= 0)
        r = apply_overrides(&c, a, e);
    if (r >= 0)
        r = fill_places(&c, a, e);
    if (r >= 0)
        r = config_check_(&c, s, e);
    if (r < 0)
        return r;
    *ret = c;
    return 0;
}

const char *sources_variable(const char *field)
{
    for (size_t i = 0; i < COUNT_OF(overrides); i++)
        if (strcmp(overrides[i].field, field) == 0 && override_value(&overrides[i]))
            return overrides[i].variable;
    return NULL;
}

int sources_fail(const struct sources *s, const char *field, struct err *e, const char *fmt, ...)
{
    char reason[sizeof e->msg];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < COUNT_OF(overrides); i++)
        if (strcmp(overrides[i].field, field) == 0 && override_value(&overrides[i]))
            return err_set(e, ERR_INVALID, "%s: %s", overrides[i].variable, reason);
    for (size_t i = s->n; i-- > 0;) {
        const struct config_source *file = &s->files[i];
        bool whole = false;

        if (file->document)
            yaml_file_at(file->document, field, &whole);
        if (whole)
            return wrap_file(e, yaml_file_fail(file->document, field, e, "%s", reason), file->path);
    }
    return err_set(e, ERR_INVALID, "%s: %s", field, reason);
}
