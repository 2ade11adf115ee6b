/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/agent_recipes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "domain/agent/recipe.h"
#include "lib/yaml/file.h"

enum { RECIPES_MEMORY = 32 << 20, RECIPE_DEPTH_MAX = 8 };

static const struct json_limits limits = { .bytes = AGENT_RECIPE_BYTES,
                                           .depth = RECIPE_DEPTH_MAX,
                                           .places = true };

struct recipe_list {
    struct agent_entry entries[AGENT_RECIPES_MAX];
    size_t n;
    struct arena arena;
};

static int fail_recipe_memory(struct err *e)
{
    return err_set(e, ERR_TOO_BIG, "the recipes of agents need more memory than is allowed");
}

/* The recipe of that name, or a new one. */
static struct agent_entry *place_recipe(struct recipe_list *l, struct str name)
{
    for (size_t i = 0; i < l->n; i++)
        if (str_eq(str_from(l->entries[i].name), name))
            return &l->entries[i];
    return l->n < AGENT_RECIPES_MAX ? &l->entries[l->n++] : NULL;
}

static int read_recipe(int dir, const char *file, struct agent_recipe *ret, struct arena *a,
                       struct err *e)
{
    const struct json *document;
    const char *field;
    struct err why;
    int r = yaml_file_read(dir, file, YAML_FILE_NO_LINK, limits, a, &document, e);

    if (r >= 0)
        r = json_bind(document, agent_recipe_fields, agent_recipe_field_count, ret, a, e);
    if (r < 0 || agent_recipe_check(ret, &field, &why) >= 0)
        return r;
    return yaml_file_fail(document, field, e, "%s", why.msg);
}

static int add_recipe_file(struct recipe_list *l, int dir, const char *path, const char *file,
                           struct err *e)
{
    struct str name = { file, strlen(file) - strlen(".yaml") };
    struct agent_entry *x = place_recipe(l, name);
    struct err why = { 0 };
    char whole[PATH_MAX];
    int r;

    if (!x)
        return err_set(e, ERR_TOO_BIG,
                       "%s: more than %d recipes of agents; '%s' and later files "
                       "are not read",
                       path, AGENT_RECIPES_MAX, file);
    *x = (struct agent_entry){ .name = arena_dup(&l->arena, name) };
    r = agent_name_fits(name) ? read_recipe(dir, file, &x->recipe, &l->arena, &why)
                              : err_set(&why, ERR_INVALID,
                                        "the name of the file must be NAME.yaml, NAME of at most "
                                        "%d of a-z, 0-9 and '-'",
                                        AGENT_NAME_MAX - 1);
    if (r < 0)
        *x = (struct agent_entry){ .name = x->name,
                                   .recipe = { .program = "-" },
                                   .problem = arena_dup(&l->arena, str_from(why.msg)) };
    snprintf(whole, sizeof whole, "%s/%s", path, file);
    x->file = arena_dup(&l->arena, str_from(whole));
    return x->name && x->file && (r >= 0 || x->problem) ? 0 : fail_recipe_memory(e);
}

static int is_recipe_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && str_ends(str_from(entry->d_name), STR(".yaml"));
}

static int add_recipe_dir(struct recipe_list *l, const char *path, struct err *e)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct dirent **names = NULL;
    struct stat st;
    int n, r = 0;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_sys(e, "%s", path);
    r = err_wrap(e, yaml_file_trusted(&st, e), "%s", path);
    n = r < 0 ? 0 : scandirat(fd, ".", &names, is_recipe_file, alphasort);
    if (n < 0)
        return err_sys(e, "%s", path);
    for (int i = 0; i < n; i++) {
        if (r >= 0)
            r = add_recipe_file(l, fd, path, names[i]->d_name, e);
        free(names[i]);
    }
    free(names);
    return r;
}

static int add_named_dirs(struct recipe_list *l, struct str dirs, struct err *e)
{
    char path[PATH_MAX];
    struct str dir;
    int r = 0;

    while (dirs.n && r >= 0) {
        dirs = str_cut(dirs, ':', &dir);
        if (!dir.n || dir.p[0] != '/' || !str_copy(dir, path, sizeof path))
            return err_set(e, ERR_INVALID, "SANDBOXER_AGENTS: '%.*s' is not an absolute path",
                           dir.n < 80 ? (int)dir.n : 80, dir.n ? dir.p : "");
        r = add_recipe_dir(l, path, e);
    }
    return r;
}

static int add_usual_dirs(struct recipe_list *l, struct err *e)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char path[PATH_MAX];
    int r = add_recipe_dir(l, "/etc/sandboxer/agents", e);

    if (r < 0 || geteuid() == 0) /* root's HOME may belong to another user */
        return r;
    if (config && config[0] == '/')
        snprintf(path, sizeof path, "%s/sandboxer/agents", config);
    else if (home && home[0] == '/')
        snprintf(path, sizeof path, "%s/.config/sandboxer/agents", home);
    else
        return r;
    return add_recipe_dir(l, path, e);
}

static int compare_recipe_names(const void *a, const void *b)
{
    return strcmp(((const struct agent_entry *)a)->name, ((const struct agent_entry *)b)->name);
}

static int write_recipe_list(struct recipe_list *l, struct buf *out, struct err *e)
{
    struct json_writer w;

    qsort(l->entries, l->n, sizeof l->entries[0], compare_recipe_names);
    json_writer_init(&w, out, JSON_COMPACT);
    json_begin_array(&w);
    for (size_t i = 0; i < l->n; i++)
        json_unbind(&l->entries[i], agent_entry_fields, agent_entry_field_count, &w);
    json_end_array(&w);
    return json_writer_finish(&w, e);
}

int agent_recipes_write(struct buf *out, struct err *e)
{
    const char *dirs = getenv("SANDBOXER_AGENTS");
    static struct recipe_list l; /* large */
    int r;

    l.n = 0;
    l.arena = ARENA_INIT(RECIPES_MEMORY);
    for (size_t i = 0; i < agents_built_in_count; i++)
        l.entries[l.n++] = agents_built_in[i];
    r = dirs && dirs[0] ? add_named_dirs(&l, str_from(dirs), e) : add_usual_dirs(&l, e);
    if (r >= 0)
        r = write_recipe_list(&l, out, e);
    arena_done(&l.arena);
    return r;
}
