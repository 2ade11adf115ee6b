/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/own.h"
#include "cli/agent/agent.h"
#include "cli/body.h"
#include "cli/remote.h"

#define LABEL_AGENT   "agent"
#define LABEL_PROGRAM "agent-program"
/* A working day: the default of the profile ends in the middle of one. */
#define AGENT_TTL "8h"

int agent_run_inside(const struct agent *a, const char *sandbox, const char *const *argv,
                     const struct option_list *env, bool tty)
{
    AUTO(arena_done) struct arena text = ARENA_INIT(REMOTE_TEXT_MAX);
    struct process_request q;
    struct err e;

    if (remote_fill_request(&q, (char *const *)(const void *)argv, env->p, env->n, tty, &text, &e) <
        0)
        return verb_misused(a->verb, "%s", e.msg);
    return remote_exec(a->verb, &a->o->common, sandbox, &q);
}

static void write_agent_network(const struct agent *a, struct json_writer *w)
{
    static struct network_options network; /* large */

    network = a->o->network;
    for (size_t i = 0; a->entry && i < a->entry->recipe.hosts.n; i++)
        if (network.allow.n < OPTION_LIST_MAX)
            network.allow.p[network.allow.n++] = a->entry->recipe.hosts.p[i];
    network_options_write(&network, w);
}

/* A copy of the directory as the workspace, or the directory itself. */
static void write_agent_workspace(const struct agent *a, struct json_writer *w)
{
    struct request_mount mount = { a->dir, AGENT_WORKSPACE, MOUNT_ACCESS_RW };
    const struct json_objects mounts = { &mount, a->mounted };

    json_field_begin_object(w, "workspace");
    json_field_cstr(w, "access", a->mounted ? "none" : "rw");
    if (!a->mounted) /* its user decides about the changes, now or later */
        json_field_cstr(w, "at_end", "keep");
    json_end_object(w);
    request_mounts_put(&mounts, w);
    if (a->mounted)
        return;
    json_field_begin_object(w, "inputs");
    json_field_cstr(w, "repo", a->dir);
    json_end_object(w);
}

static void write_agent_request(const struct agent *a, struct json_writer *w)
{
    const struct agent_options *o = a->o;
    const struct request_settings settings = box_options_settings(&o->box);

    json_begin_object(w);
    body_text(w, "name", o->name);
    body_text(w, "profile", o->profile ? o->profile : AGENT_DEFAULT_PROFILE);
    body_text(w, "snapshot", a->snapshot[0] ? a->snapshot : NULL);
    body_text(w, "ttl", o->ttl ? o->ttl : o->profile ? NULL : AGENT_TTL);
    body_text(w, "on_timeout", "pause");
    body_text(w, "checkpoint_every", agent_checkpoint_interval(o));
    write_agent_workspace(a, w);
    json_field_begin_object(w, "labels");
    json_field_cstr(w, LABEL_AGENT, a->entry ? a->entry->name : "command");
    if (a->entry)
        json_field_cstr(w, LABEL_PROGRAM, a->program);
    json_end_object(w);
    request_settings_put(&settings, w);
    write_agent_network(a, w);
    json_end_object(w);
}

int agent_create_box(struct agent *a)
{
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, a->verb, &a->o->common, "POST");
    api_call_path(&c, "/v1/sandboxes");
    status = a->mounted ? api_call_pass_mount(&c, a->dir, AGENT_WORKSPACE, true)
                        : api_call_pass_dir(&c, a->dir, true);
    if (status)
        return status;
    write_agent_request(a, api_call_json(&c));
    c.doing = "creating a sandbox";
    status = api_call_run(&c);
    if (status == 0 &&
        !str_copy(show_string(c.answer, "sandbox_id"), a->sandbox, sizeof a->sandbox))
        return verb_failed(a->verb, "the daemon's answer names no sandbox");
    return status;
}

int agent_change_box(const struct agent *a, const char *sandbox, const char *change,
                     const char *doing)
{
    AUTO(api_call_done) struct api_call c;

    api_call_init(&c, a->verb, &a->o->common, "POST");
    api_call_path(&c, "/v1/sandboxes/%s/%s", sandbox, change);
    c.doing = doing;
    return api_call_run(&c);
}

/* The directory here that a sandbox shows as its workspace. */
static struct str find_mounted_workspace(const struct json *record)
{
    const struct json *mounts = show_at(record, "mounts");

    for (const struct json *m = mounts ? json_first(mounts) : NULL; m && m != json_end(mounts); m++)
        if (str_eq(show_string(m, "target"), STR(AGENT_WORKSPACE)))
            return show_string(m, "source");
    return (struct str){ 0 };
}

/* The recipe and the program, as labels of the sandbox's record name them. */
static int read_box_recipe(struct agent *a, const struct json *record)
{
    struct str name = show_string(show_at(record, "labels"), LABEL_AGENT);
    struct str program = show_string(show_at(record, "labels"), LABEL_PROGRAM);
    struct str dir = show_string(record, "inputs.repo");
    bool any = !program.n;

    str_copy(show_string(record, "sandbox_id"), a->sandbox, sizeof a->sandbox);
    a->mounted = !dir.n;
    if (a->mounted)
        dir = find_mounted_workspace(record);
    if (!dir.n)
        return verb_misused(a->verb, "%s has no workspace that could be brought back",
                            a->o->resume);
    a->dir = arena_dup(&a->arena, dir);
    if (any && !a->arguments[0])
        return verb_misused(a->verb,
                            "%s was not made for an agent with a recipe: name the command, "
                            "sandboxer agent --resume %s -- COMMAND",
                            a->o->resume, a->o->resume);
    if (any)
        return 0;
    if (!str_copy(program, a->program, sizeof a->program) || !name.n)
        return verb_failed(a->verb, "%s: its label '" LABEL_PROGRAM "' names no program",
                           a->o->resume);
    return agent_find_recipe(a, name.p);
}

int agent_resume_box(struct agent *a)
{
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, a->verb, &a->o->common, "GET");
    api_call_path(&c, "/v1/sandboxes/%s", a->o->resume);
    status = api_call_run(&c);
    if (status == 0)
        status = read_box_recipe(a, c.answer);
    if (status == 0 && str_eq(show_string(c.answer, "state"), STR("paused")))
        status = agent_change_box(a, a->sandbox, "resume", "resuming the sandbox");
    return status;
}
