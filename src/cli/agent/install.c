/* SPDX-License-Identifier: Apache-2.0 */
/* A program from npm: installed once in a sandbox of its own, whose snapshot later sandboxes begin
 * with. The snapshot is found by its name, and the newest of a name counts, so that a process that
 * is killed leaves either the old or the new one.
 *
 * The program gets the user's keys and workspace, so only snapshots count that this user made: not
 * those of other owners, nor those of a token, which may be an agent's. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/agent/agent.h"
#include "cli/body.h"

enum { INSTALL_NAME_MAX = 160, PACKAGE_TEXT_MAX = 320 };

/* "agent-claude", or "agent-claude-2.1.0" with --version. */
static void name_installation(const struct agent *a, char out[static INSTALL_NAME_MAX])
{
    snprintf(out, INSTALL_NAME_MAX, "agent-%s%s%s", a->entry->name, a->o->version ? "-" : "",
             a->o->version ? a->o->version : "");
}

/* The user's own snapshots of this name, the newest first. */
static const struct json *list_installations(struct api_call *c, const struct agent *a,
                                             const char *name)
{
    api_call_init(c, a->verb, &a->o->common, "GET");
    api_call_path(c, "/v1/snapshots");
    api_call_query(c, "name", name);
    return answer_rows(api_call_answers(c, NULL) ? c->answer : NULL, &kind_snapshot);
}

/* Checks the name again: an older daemon lists snapshots of all names, and reports no makers. */
static bool is_installation(const struct json *row, const char *name)
{
    const struct json *by_token = show_at(row, "made_by_token");

    return by_token && by_token->type == JSON_BOOL && !by_token->b &&
           str_eq(show_string(row, "name"), str_from(name));
}

static bool find_installation(struct agent *a, const char *name)
{
    AUTO(api_call_done) struct api_call c;
    const struct json *rows = list_installations(&c, a, name);

    for (const struct json *row = json_first(rows); row != json_end(rows); row++)
        if (is_installation(row, name) &&
            str_copy(show_string(row, "snapshot_id"), a->snapshot, sizeof a->snapshot))
            return true;
    return false;
}

static int create_installer(const struct agent *a, char ret[static AGENT_SANDBOX_MAX])
{
    AUTO(api_call_done) struct api_call c;
    struct network_options network = a->o->network;
    struct json_writer *w;
    int status;

    network.packages = true;
    api_call_init(&c, a->verb, &a->o->common, "POST");
    api_call_path(&c, "/v1/sandboxes");
    w = api_call_json(&c);
    json_begin_object(w);
    body_text(w, "profile", a->o->profile ? a->o->profile : AGENT_DEFAULT_PROFILE);
    json_field_begin_object(w, "labels");
    json_field_cstr(w, "agent-install", a->entry->name);
    json_end_object(w);
    network_options_write(&network, w);
    json_end_object(w);
    c.doing = "creating a sandbox for the installation";
    status = api_call_run(&c);
    if (status == 0 && !str_copy(show_string(c.answer, "sandbox_id"), ret, AGENT_SANDBOX_MAX))
        return verb_failed(a->verb, "the daemon's answer names no sandbox");
    return status;
}

/* --prefix would replace the system's configuration of npm, which names its registry. */
static const char install_package[] =
    "export npm_config_globalconfig=\"$(npm config get globalconfig)\"\n"
    "exec npm install --global --prefix " AGENT_PREFIX " -- \"$1\"\n";

/* npm's cache and logs are in /run, which is in no snapshot. */
static void fill_npm_variables(struct option_list *env)
{
    static const char *const variables[] = { "npm_config_cache=/run/npm",
                                             "npm_config_update_notifier=false",
                                             "npm_config_fund=false", "npm_config_audit=false" };
    const char *registry;

    env->n = 0;
    for (size_t i = 0; i < COUNT_OF(variables); i++)
        env->p[env->n++] = variables[i];
    if (option_variable("", "npm_config_registry", &registry, NULL) >= 0 && registry)
        env->p[env->n++] = registry;
}

static int run_npm(const struct agent *a, const char *sandbox)
{
    static struct option_list env; /* large */
    char package[PACKAGE_TEXT_MAX];
    const char *const argv[] = { "sh", "-c", install_package, "sh", package, NULL };
    bool tty = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    int status;

    fill_npm_variables(&env);
    snprintf(package, sizeof package, "%s@%s", a->entry->recipe.package,
             a->o->version ? a->o->version : "latest");
    if (!a->o->common.quiet)
        cli_report("installing %s in a sandbox", package);
    status = agent_run_inside(a, sandbox, argv, &env, tty);
    if (status)
        verb_failed(a->verb,
                    "npm could not install %s (status %d); 'sandboxer egress denials' of "
                    "the sandbox would name a refused host: --allow HOST grants it",
                    package, status);
    return status ? EXIT_TOOL_FAILED : 0;
}

static int store_installation(struct agent *a, const char *sandbox, const char *name)
{
    AUTO(api_call_done) struct api_call c;
    struct json_writer *w;
    int status;

    api_call_init(&c, a->verb, &a->o->common, "POST");
    api_call_path(&c, "/v1/sandboxes/%s/snapshot", sandbox);
    w = api_call_json(&c);
    json_begin_object(w);
    json_field_cstr(w, "name", name);
    json_end_object(w);
    c.doing = "storing the installation";
    status = api_call_run(&c);
    if (status == 0 &&
        !str_copy(show_string(c.answer, "snapshot_id"), a->snapshot, sizeof a->snapshot))
        return verb_failed(a->verb, "the daemon's answer names no snapshot");
    return status;
}

static void delete_installer(const struct agent *a, const char *sandbox)
{
    AUTO(api_call_done) struct api_call c;

    api_call_init(&c, a->verb, &a->o->common, "DELETE");
    api_call_path(&c, "/v1/sandboxes/%s", sandbox);
    (void)api_call_run(&c);
}

/* Those that the new one replaces. One that a sandbox uses stays, and is removed the next time. */
static void delete_older_installations(const struct agent *a, const char *name)
{
    AUTO(api_call_done) struct api_call c;
    const struct json *rows = list_installations(&c, a, name);

    for (const struct json *row = json_first(rows); row != json_end(rows); row++) {
        AUTO(api_call_done) struct api_call d;
        struct str id = show_string(row, "snapshot_id");

        api_call_init(&d, a->verb, &a->o->common, "DELETE");
        if (!id.n || str_eq(id, str_from(a->snapshot)) || !is_installation(row, name))
            continue;
        api_call_path(&d, "/v1/snapshots/%s", id.p);
        (void)api_call_answers(&d, NULL);
    }
}

static int make_installation(struct agent *a, const char *name)
{
    char sandbox[AGENT_SANDBOX_MAX];
    int status = create_installer(a, sandbox);

    if (status)
        return status;
    status = run_npm(a, sandbox);
    if (status == 0)
        status = store_installation(a, sandbox, name);
    delete_installer(a, sandbox);
    if (status == 0)
        delete_older_installations(a, name);
    return status;
}

int agent_install(struct agent *a, bool again)
{
    char name[INSTALL_NAME_MAX];

    name_installation(a, name);
    if (!again && find_installation(a, name))
        return 0;
    return again || a->o->version ? make_installation(a, name) : 0;
}
