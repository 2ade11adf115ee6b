/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "cli/agent/agent.h"
#include "cli/daemon.h"

#define MODULES "/node_modules/"

/* Directories of this machine that a sandbox shows, read-only. */
static bool is_shown_inside(const char *path)
{
    static const char *const shown[] = { "/usr/", "/bin/", "/sbin/", "/lib/", "/lib64/" };

    for (size_t i = 0; i < COUNT_OF(shown); i++)
        if (strncmp(path, shown[i], strlen(shown[i])) == 0)
            return true;
    return false;
}

/* The length of the package's directory in the path of a file of it; 0: it is in no package. */
static size_t package_part(const char *path)
{
    const char *at = strstr(path, MODULES);

    if (!at)
        return 0;
    at += strlen(MODULES);
    if (*at == '@')
        at += strcspn(at, "/") + 1;
    return (size_t)(at - path) + strcspn(at, "/");
}

/* A program elsewhere, such as one below a home, is copied in: with its package if it has one. */
static int plan_copy(struct agent *a, const char *path)
{
    size_t n = package_part(path);
    const char *name = strrchr(path, '/') + 1;

    if (n && path[n] == '/') {
        const char *package = strstr(path, MODULES) + strlen(MODULES);

        snprintf(a->copied, sizeof a->copied, "%.*s", (int)n, path);
        snprintf(a->target, sizeof a->target, AGENT_PREFIX "/lib%s%s", MODULES,
                 a->copied + (package - path));
        if (snprintf(a->program, sizeof a->program, "%s%s", a->target, path + n) <
            (int)sizeof a->program)
            return 0;
    } else {
        snprintf(a->copied, sizeof a->copied, "%s", path);
        snprintf(a->target, sizeof a->target, AGENT_PREFIX "/bin/%s", name);
        if (snprintf(a->program, sizeof a->program, "%s", a->target) < (int)sizeof a->program)
            return 0;
    }
    return verb_failed(a->verb, "%s: the path is too long to be copied into a sandbox", path);
}

/* 1: it is here and a->program is set; 0: it is not; or -1 and *ret_status. */
static int find_program_here(struct agent *a, int *ret_status)
{
    char found[PATH_MAX], real[PATH_MAX];

    if (!daemon_find_in_path(a->entry->recipe.program, found, sizeof found))
        return 0;
    if (!realpath(found, real))
        return 0;
    if (is_shown_inside(real) && is_shown_inside(found)) {
        snprintf(a->program, sizeof a->program, "%s", a->entry->recipe.program);
        return 1;
    }
    *ret_status = plan_copy(a, real);
    return *ret_status ? -1 : 1;
}

int agent_find_program(struct agent *a)
{
    const struct agent_recipe *recipe = &a->entry->recipe;
    bool asked = a->o->install || a->o->version;
    int status = 0, found;

    if (asked && !recipe->package)
        return verb_misused(a->verb, "the recipe '%s' names no package of npm: install %s yourself",
                            a->entry->name, recipe->program);
    if (!asked) {
        found = find_program_here(a, &status);
        if (found)
            return found < 0 ? status : 0;
    }
    if (recipe->package) {
        snprintf(a->program, sizeof a->program, AGENT_PREFIX "/bin/%s", recipe->program);
        status = agent_install(a, a->o->install);
        if (status || a->snapshot[0])
            return status;
    }
    verb_failed(a->verb, "%s is not installed here%s%s%s", recipe->program,
                recipe->package ? "; --install installs " : "",
                recipe->package ? recipe->package : "",
                recipe->package ? " of npm, in a sandbox" : "");
    return EXIT_NOT_FOUND;
}
