/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/agent/agent.h"
#include "cli/copy.h"

enum { LOGIN_BYTES_MAX = 64 << 10 };

/* Makes the files that the arguments name and the sandbox lacks. Their texts are variables: they may
 * be credentials, and arguments are on record. */
static const char make_files[] = "umask 077; n=0\n"
                                 "for path; do\n"
                                 "    case $path in '~/'*) path=$HOME/${path#'~/'} ;; esac\n"
                                 "    if [ ! -e \"$path\" ]; then\n"
                                 "        mkdir -p \"${path%/*}\" && eval \"printf '%s\\\\n' "
                                 "\\\"\\$TEXT_$n\\\"\" >\"$path\" || exit\n"
                                 "    fi\n"
                                 "    n=$((n + 1))\n"
                                 "done\n";

static int add_box_file(struct agent *a, const char *path, struct str text)
{
    struct agent_files *s = &a->files;
    size_t size = text.n + 32;
    char *variable = arena_array(&a->arena, size, 1);

    if (!variable || s->n == AGENT_FILES_MAX)
        return verb_failed(a->verb, "the files of the recipe need more memory than is allowed");
    while (text.n && text.p[text.n - 1] == '\n')
        text.n--; /* printf writes one */
    snprintf(variable, size, "TEXT_%zu=" STR_FMT, s->n, STR_ARG(text));
    s->texts.p[s->texts.n++] = variable;
    s->paths[s->n++] = path;
    return 0;
}

/* 1, or 0 if there is no such file; -1 after a message. */
static int read_login(struct agent *a, const char *path, struct buf *out)
{
    const char *home = getenv("HOME");
    char whole[PATH_MAX];
    AUTO_CLOSE int fd = -1;
    struct stat st;
    char *room;
    ssize_t n;

    snprintf(whole, sizeof whole, "%s/%s", home ? home : "", path + 2);
    fd = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0) {
        verb_failed(a->verb, "--pass-login: %s: %s", whole, strerror(errno));
        return -1;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > LOGIN_BYTES_MAX ||
        buf_room(out, LOGIN_BYTES_MAX, &room) < 0) {
        verb_failed(a->verb, "--pass-login: %s: is not a file of at most %d bytes", whole,
                    LOGIN_BYTES_MAX);
        return -1;
    }
    n = read(fd, room, LOGIN_BYTES_MAX);
    buf_grew(out, n > 0 ? (size_t)n : 0);
    return 1;
}

static int add_logins(struct agent *a)
{
    const struct json_strs *logins = &a->entry->recipe.logins;
    int status = 0, found = 0;

    for (size_t i = 0; i < logins->n && status == 0; i++) {
        AUTO(buf_done) struct buf text = BUF_INIT(LOGIN_BYTES_MAX + 1);
        int r = read_login(a, logins->p[i], &text);

        if (r < 0)
            return EXIT_TOOL_FAILED;
        if (r > 0)
            status = add_box_file(a, logins->p[i], buf_str(&text));
        found += r;
    }
    if (status == 0 && !found)
        return verb_misused(a->verb,
                            "--pass-login: there is no login of %s in your home (%s%s); log "
                            "in here first",
                            a->entry->name, logins->n ? logins->p[0] : "its recipe names no file",
                            logins->n > 1 ? ", …" : "");
    if (status == 0)
        cli_report("warning: %s, and every program that it runs, can read your login and act with "
                   "it; log out afterwards if that was a mistake",
                   a->entry->name);
    return status;
}

/* Logins come first: they take the place of the recipe's files. */
int agent_collect_files(struct agent *a)
{
    const struct agent_recipe *recipe = &a->entry->recipe;
    int status = a->o->pass_login ? add_logins(a) : 0;

    for (size_t i = 0; i < recipe->files.n && status == 0; i++)
        status = add_box_file(a, recipe->files.p[i].key, str_from(recipe->files.p[i].value));
    return status;
}

static int make_files_inside(const struct agent *a)
{
    const char *argv[AGENT_FILES_MAX + 5] = { "sh", "-c", make_files, "sh" };
    int status;

    if (!a->files.n)
        return 0;
    memcpy(argv + 4, a->files.paths, a->files.n * sizeof *argv);
    status = agent_run_inside(a, a->sandbox, argv, &a->files.texts, false);
    return status
               ? verb_failed(a->verb, "the files of the recipe could not be made in %s (status %d)",
                             a->sandbox, status)
               : 0;
}

/* For a program that is not among the directories which every sandbox shows. */
static int copy_program_in(const struct agent *a)
{
    static const struct option_list none;
    const struct copy c = { .verb = a->verb, .common = &a->o->common };
    char parent[PATH_MAX];
    const char *const argv[] = { "mkdir", "-p", "--", parent, NULL };
    struct copy_end to = { .path = a->target };
    int status;

    snprintf(to.sandbox, sizeof to.sandbox, "%s", a->sandbox);
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(a->target, '/') - a->target), a->target);
    status = agent_run_inside(a, a->sandbox, argv, &none, false);
    return status ? status : copy_in(&c, a->copied, &to, false);
}

int agent_set_up(struct agent *a)
{
    int status = a->copied[0] ? copy_program_in(a) : 0;

    return status ? status : make_files_inside(a);
}

/* --- variables --- */

static int add_variable(struct agent *a, struct option_list *to, const char *name,
                        const char *value)
{
    size_t size = strlen(name) + strlen(value) + 2;
    char *pair = to->n < OPTION_LIST_MAX ? arena_array(&a->arena, size, 1) : NULL;

    if (!pair)
        return verb_misused(a->verb, "more than %d variables", OPTION_LIST_MAX);
    snprintf(pair, size, "%s=%s", name, value);
    to->p[to->n++] = pair;
    return 0;
}

/* Those of the caller that are set; *ret_first is the first of them, or NULL. */
static int add_own_variables(struct agent *a, struct option_list *to, const struct json_strs *names,
                             const char **ret_first)
{
    int status = 0;

    *ret_first = NULL;
    for (size_t i = 0; i < names->n && status == 0; i++) {
        const char *value = getenv(names->p[i]);

        if (!value || !value[0])
            continue;
        status = add_variable(a, to, names->p[i], value);
        if (!*ret_first)
            *ret_first = names->p[i];
    }
    return status;
}

static int add_keys(struct agent *a, struct option_list *to)
{
    const struct json_strs *keys;
    const char *first;
    int status;

    if (!a->entry)
        return verb_misused(a->verb, "--pass-key: a command without a recipe has no keys; name "
                                     "variables with --env NAME");
    keys = &a->entry->recipe.keys;
    status = add_own_variables(a, to, keys, &first);
    if (status == 0 && !first)
        return verb_misused(a->verb, "--pass-key: no key of %s is set (%s%s)", a->entry->name,
                            keys->n ? keys->p[0] : "its recipe names none",
                            keys->n > 1 ? ", …" : "");
    if (status == 0)
        cli_report(
            "warning: %s, and every program that it runs, can read %s; use a key with limits",
            a->entry->name, first);
    return status;
}

int agent_variables(struct agent *a, struct option_list *ret)
{
    const struct agent_recipe *recipe = a->entry ? &a->entry->recipe : NULL;
    const char *first;
    int status = 0;

    *ret = (struct option_list){ .n = 0 };
    for (size_t i = 0; recipe && i < recipe->env.n && status == 0; i++)
        status = add_variable(a, ret, recipe->env.p[i].key, recipe->env.p[i].value);
    if (recipe && status == 0)
        status = add_own_variables(a, ret, &recipe->pass, &first);
    if (status == 0 && a->o->pass_key)
        status = add_keys(a, ret);
    for (size_t i = 0; i < a->o->env.n && status == 0; i++) {
        if (ret->n == OPTION_LIST_MAX)
            return verb_misused(a->verb, "--env: more than %d variables", OPTION_LIST_MAX);
        ret->p[ret->n++] = a->o->env.p[i];
    }
    return status;
}
