/* SPDX-License-Identifier: Apache-2.0 */
#include "domain/agent/recipe.h"

#include <string.h>

#include "base/own.h"

enum { PROGRAM_MAX = 64, PACKAGE_MAX = 214, TEXT_MAX = 256 };

#define AT(member) JSON_AT(struct agent_recipe, member)

const struct json_field agent_recipe_fields[] = {
    { "description", JSON_KIND_STR, AT(description), .max = TEXT_MAX,
      .doc = "Purpose of the agent, for `sandboxer agent --list`." },
    { "program", JSON_KIND_STR, AT(program), .required = true, .min = 1, .max = PROGRAM_MAX,
      .doc = "Name of the program, without a directory." },
    { "package", JSON_KIND_STR, AT(package), .min = 1, .max = PACKAGE_MAX,
      .doc = "Package of npm that contains it, for --install; without a version." },
    { "hosts", JSON_KIND_STRS, AT(hosts), .max = AGENT_LIST_MAX,
      .doc = "Hosts that it may reach: HOST[:PORT], as of --allow." },
    { "env", JSON_KIND_MAP, AT(env), .max = AGENT_LIST_MAX, .doc = "Variables that it has." },
    { "pass", JSON_KIND_STRS, AT(pass), .max = AGENT_LIST_MAX,
      .doc = "Variables of yours, without credentials, that it gets if they are set." },
    { "keys", JSON_KIND_STRS, AT(keys), .max = AGENT_LIST_MAX,
      .doc = "Variables with credentials, that it gets with --pass-key." },
    { "files", JSON_KIND_MAP, AT(files), .max = AGENT_LIST_MAX,
      .doc = "Files that must exist inside, and their text: absolute paths, or `~/…`." },
    { "logins", JSON_KIND_STRS, AT(logins), .max = AGENT_LIST_MAX,
      .doc = "Files of your home with a login, `~/…`, that it gets with --pass-login." },
};
const size_t agent_recipe_field_count = COUNT_OF(agent_recipe_fields);

#define OF(member) JSON_AT(struct agent_entry, member)

const struct json_field agent_entry_fields[] = {
    { "name", JSON_KIND_STR, OF(name), .required = true },
    { "recipe", JSON_KIND_OBJECT, OF(recipe), .fields = agent_recipe_fields,
      .field_count = COUNT_OF(agent_recipe_fields) },
    { "file", JSON_KIND_STR, OF(file) },
    { "problem", JSON_KIND_STR, OF(problem) },
};
const size_t agent_entry_field_count = COUNT_OF(agent_entry_fields);

bool agent_name_fits(struct str name)
{
    if (!name.n || name.n >= AGENT_NAME_MAX || name.p[0] == '-')
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-", name.p[i]) || !name.p[i])
            return false;
    return true;
}

static bool is_variable_name(const char *name)
{
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

    return n > 0 && !name[n] && !(name[0] >= '0' && name[0] <= '9');
}

/* A path inside or in a home, without steps that lead out of it. */
static bool is_recipe_path(const char *path, bool home_only)
{
    struct str rest, step;

    if (strncmp(path, "~/", 2) != 0 && (home_only || path[0] != '/'))
        return false;
    rest = str_from(path[0] == '/' ? path + 1 : path + 2);
    while (rest.p) {
        rest = str_cut(rest, '/', &step);
        if (!step.n || str_eq(step, STR(".")) || str_eq(step, STR("..")))
            return false;
    }
    return strlen(path) < TEXT_MAX;
}

static int check_variables(struct json_strs list, struct err *e)
{
    for (size_t i = 0; i < list.n; i++)
        if (!is_variable_name(list.p[i]))
            return err_set(e, ERR_INVALID, "'%.60s' is not the name of a variable", list.p[i]);
    return 0;
}

static int check_paths(const struct agent_recipe *r, const char **ret_field, struct err *e)
{
    *ret_field = "files";
    for (size_t i = 0; i < r->files.n; i++)
        if (!is_recipe_path(r->files.p[i].key, false))
            return err_set(e, ERR_INVALID, "'%.80s' is neither an absolute path nor ~/PATH",
                           r->files.p[i].key);
    *ret_field = "logins";
    for (size_t i = 0; i < r->logins.n; i++)
        if (!is_recipe_path(r->logins.p[i], true))
            return err_set(e, ERR_INVALID, "'%.80s' is not ~/PATH, a file of your home",
                           r->logins.p[i]);
    return 0;
}

int agent_recipe_check(const struct agent_recipe *r, const char **ret_field, struct err *e)
{
    *ret_field = "program";
    if (strchr(r->program, '/') || r->program[0] == '-')
        return err_set(e, ERR_INVALID,
                       "'%.60s' is not the name of a program: leave out the "
                       "directory",
                       r->program);
    *ret_field = "package";
    if (r->package &&
        (r->package[0] == '-' || strpbrk(r->package, " \t:\\'\"") || strchr(r->package + 1, '@')))
        return err_set(e, ERR_INVALID,
                       "'%.80s' is not the name of a package; --version selects "
                       "its version",
                       r->package);
    *ret_field = "env";
    for (size_t i = 0; i < r->env.n; i++)
        if (!is_variable_name(r->env.p[i].key))
            return err_set(e, ERR_INVALID, "'%.60s' is not the name of a variable",
                           r->env.p[i].key);
    *ret_field = "pass";
    if (check_variables(r->pass, e) < 0)
        return -ERR_INVALID;
    *ret_field = "keys";
    if (check_variables(r->keys, e) < 0)
        return -ERR_INVALID;
    return check_paths(r, ret_field, e);
}
