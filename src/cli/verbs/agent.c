/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/agent/agent.h"
#include "cli/remote.h"
#include "cli/verbs/verbs.h"

#define AT(member) .at = offsetof(struct agent_options, member)

/* The daemon checks the duration. */
static int set_agent_checkpoint(void *member, const char *value, struct err *e)
{
    *(const char **)member = strcmp(value, "0") == 0 ? value : option_duration(value);
    return 0;
}

static const struct option_spec agent_options[] = {
    { "list", 0, NULL, "show the recipes", AT(list) },
    { "install", 0, NULL, "install its newest version from npm, in a sandbox, and keep it",
      AT(install) },
    { "version", 0, "VERSION", "this version from npm; installed once", AT(version) },
    { "pass-key", 0, NULL, "pass on the keys of its vendor that are set here", AT(pass_key) },
    { "pass-login", 0, NULL, "copy its login from your home into the sandbox", AT(pass_login) },
    { "workspace", 0, "MODE",
      "copy: its changes come back at the end; mount: it writes to DIR itself, at once and "
      "without a review (default: copy)",
      AT(workspace), .words = "copy mount" },
    { "sync", 0, "MODE",
      "bring the changes back at the end: ask, auto or never (default: ask; never without a "
      "terminal)",
      AT(sync), .words = "ask auto never" },
    { "keep", 0, NULL, "keep the sandbox at the end, stopped", AT(keep) },
    { "resume", 0, "ID", "continue in the sandbox of an earlier agent", AT(resume),
      .complete = COMPLETE_SANDBOX },
    { "name", 0, "NAME", "a name that commands take in the place of its id", AT(name) },
    { "profile", 'p', "PROFILE", "profile (default: " AGENT_DEFAULT_PROFILE ")", AT(profile),
      .complete = COMPLETE_PROFILE },
    { "ttl", 0, "DURATION", "lifetime (default: 8h; with --profile, the profile's)",
      .kind = OPTION_DURATION, AT(ttl) },
    { "checkpoint", 0, "DURATION",
      "take a checkpoint for 'undo' when files have changed, so often (default: 5m; 0: none)",
      .set = set_agent_checkpoint, AT(checkpoint) },
    { "env", 'e', "NAME[=VALUE]", "set a variable, or pass on ours; can be repeated",
      .kind = OPTION_VARIABLES, AT(env) },
    { "memory", 'm', "SIZE", "memory limit, such as 8G (default: the profile's)",
      .set = box_set_memory, AT(box) },
    { "cpu", 0, "N.N", "processors it may use (default: the profile's)", .set = box_set_cpu,
      AT(box) },
    NETWORK_OPTION_ROWS(struct agent_options, network),
};

/* --- --list --- */

static void show_source(const struct json *v, int64_t now, struct buf *out)
{
    struct str file = show_string(v, "file");

    buf_add(out, file.n ? file : STR("built in"));
}

static const struct column recipe_columns[] = {
    COLUMN("NAME", "name"),
    COLUMN("PROGRAM", "recipe.program"),
    COLUMN("PACKAGE", "recipe.package"),
    COLUMN("HOSTS", "recipe.hosts", .most = 60),
    COLUMN("SOURCE", "", .show = show_source),
    COLUMN("PROBLEM", "problem"),
};
static const struct answer_kind kind_recipe = KIND("agents", "name", recipe_columns);

static int list_recipes(struct api_call *c)
{
    AUTO(arena_done) struct arena a = ARENA_INIT(AGENT_MEMORY_MAX);
    AUTO(buf_done) struct buf text = BUF_INIT(AGENT_MEMORY_MAX);
    struct json_objects all;
    const struct agent_entry *entries;
    struct json_writer w;
    const struct json *tree;
    struct err e;

    if (agents_read(&a, &all, &e) < 0)
        return verb_failed(c->verb, "%s", e.msg);
    entries = all.p;
    json_writer_init(&w, &text, JSON_COMPACT);
    json_begin_object(&w);
    json_field_begin_array(&w, "agents");
    for (size_t i = 0; i < all.n; i++)
        json_unbind(&entries[i], agent_entry_fields, agent_entry_field_count, &w);
    json_end_array(&w);
    json_end_object(&w);
    if (json_writer_finish(&w, &e) < 0 || api_call_read_json(c, buf_str(&text), &tree, &e) < 0)
        return verb_failed(c->verb, "%s", e.msg);
    return answer_list(c, tree, &kind_recipe);
}

/* --- arguments: [NAME] [DIR] [-- ARGUMENT…] --- */

static bool is_directory_word(const char *word)
{
    return strchr(word, '/') || strcmp(word, ".") == 0 || strcmp(word, "..") == 0;
}

static int take_agent_directory(struct agent *a, const char *dir)
{
    char real[PATH_MAX];

    if (!realpath(dir, real))
        return verb_misused(a->verb, "%s: %s", dir, strerror(errno));
    a->dir = arena_dup(&a->arena, str_from(real));
    return a->dir ? 0
                  : verb_failed(a->verb,
                                "%.80s…: the path, the options and the recipes of agents together "
                                "need more than %d KiB",
                                dir, AGENT_MEMORY_MAX >> 10);
}

/* A copy of it would have more than a project. */
static bool is_home_directory(void)
{
    const char *home = getenv("HOME");
    struct stat here, there;

    return home && stat(".", &here) == 0 && stat(home, &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

/* The words before "--" select the recipe and the directory. Without a recipe the words behind it
 * are a command. */
static int take_agent_arguments(struct agent *a, int argc, char **argv)
{
    const char *name = NULL, *given = NULL;
    int at = 0, status;

    if (at < argc && strcmp(argv[at], "--") != 0 && !is_directory_word(argv[at]) && !a->o->resume)
        name = argv[at++];
    if (at < argc && strcmp(argv[at], "--") != 0 && !a->o->resume)
        given = argv[at++];
    if (at < argc && strcmp(argv[at], "--") != 0)
        return verb_misused(a->verb, "unexpected argument '%s': sandboxer agent %s", argv[at],
                            a->verb->arguments);
    a->arguments = argv + at + (at < argc);
    if (a->o->resume)
        return 0;
    if (!name && !a->arguments[0])
        return verb_misused(a->verb, "name an agent ('sandboxer agent --list' shows them), or a "
                                     "command: sandboxer agent -- COMMAND");
    status = name ? agent_find_recipe(a, name) : 0;
    if (status)
        return status;
    if (!given && is_home_directory())
        return verb_misused(a->verb,
                            "the current directory is your home: the agent would have all of it, "
                            "with keys and logins. Name a directory: sandboxer agent %s%s~/proj "
                            "('.' means this one)",
                            name ? name : "", name ? " " : "");
    return take_agent_directory(a, given ? given : ".");
}

static int check_agent_options(const struct agent *a)
{
    const struct agent_options *o = a->o;

    if (o->resume &&
        (o->name || o->profile || o->install || o->version || o->ttl || o->checkpoint ||
         o->workspace || o->box.asked || network_touched(&o->network)))
        return verb_misused(
            a->verb, "--resume continues in a sandbox that exists: it excludes "
                     "--name, --profile, --install, --version, --ttl, --checkpoint, --workspace, "
                     "limits and the network's options");
    if (a->mounted && o->sync)
        return verb_misused(a->verb, "--sync brings the changes of a copy back, and --workspace "
                                     "mount has none");
    if (!o->resume && !a->entry && (o->install || o->version))
        return verb_misused(a->verb,
                            "--install and --version need a recipe, which names a package");
    if (!o->resume && !a->entry && (o->pass_key || o->pass_login))
        return verb_misused(a->verb,
                            "--pass-key and --pass-login need a recipe; pass a variable to "
                            "a command with --env NAME");
    return 0;
}

/* --- the run --- */

static int run_agent_program(struct agent *a, const struct option_list *env)
{
    AUTO(arena_done) struct arena text = ARENA_INIT(REMOTE_TEXT_MAX);
    const char **argv;
    struct process_request q;
    size_t n = 0;
    struct err e;

    while (a->arguments[n])
        n++;
    argv = arena_array(&text, n + 2, sizeof *argv);
    if (!argv)
        return verb_failed(a->verb, "the arguments need more memory than is allowed");
    argv[0] = a->program;
    memcpy(argv + (a->entry != NULL), a->arguments, (n + 1) * sizeof *argv);
    if (remote_fill_request(&q, (char *const *)(void *)argv, env->p, env->n,
                            isatty(STDIN_FILENO) == 1, &text, &e) < 0)
        return verb_misused(a->verb, "%s", e.msg);
    q.cwd = AGENT_WORKSPACE;
    q.stdin_ = true;
    return remote_exec(a->verb, &a->o->common, a->sandbox, &q);
}

static void agent_done(struct agent *a)
{
    arena_done(&a->arena);
}

/* A sandbox in which the agent did not start has no changes. */
static int abandon_box(const struct agent *a, int status)
{
    AUTO(api_call_done) struct api_call c;

    api_call_init(&c, a->verb, &a->o->common, "DELETE");
    api_call_path(&c, "/v1/sandboxes/%s", a->sandbox);
    if (!a->o->resume)
        (void)api_call_answers(&c, NULL);
    return status;
}

/* Variables and files are checked before anything is made. */
static int run_agent_in_box(struct agent *a)
{
    struct option_list env;
    int status = a->o->resume ? agent_resume_box(a) : 0, settled;

    if (status == 0)
        status = agent_variables(a, &env);
    if (status == 0 && a->entry)
        status = agent_collect_files(a);
    if (status == 0 && a->entry && !a->o->resume)
        status = agent_find_program(a);
    if (status == 0 && !a->o->resume)
        status = agent_create_box(a);
    if (status)
        return status;
    if (!a->o->common.quiet)
        cli_report(a->mounted ? "%s is %s itself, not a copy, in the sandbox %s"
                              : "%s is the copy of %s in the sandbox %s",
                   AGENT_WORKSPACE, a->dir, a->sandbox);
    status = agent_set_up(a);
    if (status)
        return abandon_box(a, status);
    agent_take_checkpoint(a);
    status = run_agent_program(a, &env);
    settled = agent_settle(a);
    return status ? status : settled;
}

static int run_agent(struct api_call *c, void *options, int argc, char **argv)
{
    AUTO(agent_done)
    struct agent a = { .verb = c->verb, .o = options, .arena = ARENA_INIT(AGENT_MEMORY_MAX) };
    struct agent_options *o = options;
    struct err e;
    int status;

    if (o->list)
        return list_recipes(c);
    if (network_options_read(&o->network, &e) < 0)
        return api_call_failed(c, &e);
    a.mounted = o->workspace && strcmp(o->workspace, "mount") == 0;
    status = take_agent_arguments(&a, argc, argv);
    if (status == 0)
        status = check_agent_options(&a);
    return status ? status : run_agent_in_box(&a);
}

const struct verb verb_agent = {
    .name = "agent",
    ARGUMENTS("[AGENT] [DIR] [-- ARGUMENT…]", 0, ARGUMENTS_ANY, COMPLETE_FILE),
    .summary = "run a coding agent in a sandbox, on a copy of a directory",
    .text = "The agent has your terminal, a copy of DIR (default: the current directory) as its\n"
            "workspace, and reaches the hosts of its vendor and of --allow. At its end the\n"
            "changes are listed, and brought back as --sync says; a sandbox with changes that\n"
            "stay inside is kept, stopped, and the command that continues is printed.\n"
            "\n"
            "With --workspace mount the agent works on DIR itself: its changes need no review and\n"
            "have none, also those of files that your programs obey, such as git hooks.\n"
            "\n"
            "Recipes (--list) are for claude, codex, gemini and opencode, and for the YAML files\n"
            "in /etc/sandboxer/agents and ~/.config/sandboxer/agents. The program is the one of\n"
            "this machine, or comes from npm with --install. Without a recipe, the words behind\n"
            "'--' are the command.\n"
            "\n"
            "No credentials enter without --pass-key or --pass-login. The agent can read those:\n"
            "use a key with limits.\n"
            "\n"
            "Exit status: that of the agent; after its success, 4 if changes were left inside\n"
            "because they need attention.\n"
            "\n"
            "  sandboxer agent claude ~/proj --pass-key\n"
            "  sandboxer agent codex --install --pass-login -- --full-auto\n"
            "  sandboxer agent --sync auto --allow-packages -- ./fix-tests.sh\n"
            "  sandboxer agent claude ~/proj --pass-key --workspace mount\n"
            "  sandboxer agent --resume sbx_4k7 --pass-key\n",
    OPTIONS(agent_options, struct agent_options),
    .defaults = &(const struct agent_options){ .network = NETWORK_OPTIONS_NONE },
    .run = run_agent,
    .flags = VERB_ASKS | VERB_DASHES,
};
