/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/body.h"
#include "cli/checkpoint.h"
#include "cli/run/box_options.h"
#include "cli/run/network_options.h"
#include "cli/verbs/verbs.h"

struct create_options {
    struct common common;
    const char *name, *profile, *image, *snapshot, *ttl, *checkpoint, *scope, *mode, *access;
    const char *actor, *harness, *session_id, *run_id, *job_id;
    const char *idempotency_key;
    struct option_list inputs, env, labels;
    struct box_options box;
    struct network_options network;
    bool no_wait;
};

#define AT(member) .at = offsetof(struct create_options, member)

static const struct option_spec options[] = {
    { "name", 0, "NAME", "a name that commands take in the place of its id", AT(name) },
    { "profile", 'p', "PROFILE", "profile (default: profile.sandbox-canary)", AT(profile),
      .complete = COMPLETE_PROFILE },
    { "snapshot", 0, "SNAPSHOT", "begin with the files of a snapshot ('snapshots list')",
      AT(snapshot), .complete = COMPLETE_SNAPSHOT },
    { "image", 0, "REF", "its root file system, in place of the profile's ('image list')",
      AT(image), .complete = COMPLETE_IMAGE },
    { "ttl", 0, "DURATION", "lifetime: 30m, 2h (default: the profile's)", .kind = OPTION_DURATION,
      AT(ttl) },
    { "checkpoint", 0, "DURATION", "take a checkpoint when files have changed, so often ('undo')",
      .kind = OPTION_DURATION, AT(checkpoint) },
    { "input", 'i', "NAME=PATH", "an input of the profile; can be repeated", .kind = OPTION_PAIRS,
      AT(inputs), .complete = COMPLETE_FILE },
    { "env", 'e', "NAME[=VALUE]", "set a variable, or pass on ours; can be repeated",
      .kind = OPTION_VARIABLES, AT(env) },
    { "label", 'l', "KEY=VALUE", "a label to find it by; can be repeated", .kind = OPTION_PAIRS,
      AT(labels) },
    BOX_OPTION_ROWS(struct create_options, box),
    NETWORK_OPTION_ROWS(struct create_options, network),
    { "scope", 0, "SCOPE", "who shares it: session, agent or shared", AT(scope),
      .words = "session agent shared" },
    { "workspace", 0, "MODE", "mirror or remote-canonical", AT(mode),
      .words = "mirror remote-canonical" },
    { "access", 0, "ACCESS", "to the workspace: none, ro or rw", AT(access),
      .words = "none ro rw" },
    { "actor", 0, "KIND", "kind of caller: adm, agt or atm", AT(actor), .words = "adm agt atm" },
    { "harness", 0, "NAME", "the agent's harness, for the record", AT(harness) },
    { "session-id", 0, "ID", "the agent's session, for the record", AT(session_id) },
    { "run-id", 0, "ID", "the run, for the record", AT(run_id) },
    { "job-id", 0, "ID", "the job, for the record", AT(job_id) },
    { "idempotency-key", 0, "KEY", "within a day, the same key gives the same sandbox",
      AT(idempotency_key) },
    { "no-wait", 0, NULL, "do not wait until it is ready", AT(no_wait) },
};

/* Makes paths absolute: the daemon has another working directory. */
static void resolve_inputs(struct option_list *inputs)
{
    for (size_t i = 0; i < inputs->n; i++) {
        size_t name = strcspn(inputs->p[i], "=") + 1, n; /* its kind has checked the '=' */
        const char *value = inputs->p[i][name - 1] ? inputs->p[i] + name : "";
        char path[PATH_MAX], *pair;

        if (value[0] == '/' || !value[0] || !realpath(value, path))
            continue;
        n = name + strlen(path) + 1;
        pair = new0(n); /* lives as long as we do */
        snprintf(pair, n, "%.*s%s", (int)name, inputs->p[i], path);
        inputs->p[i] = pair;
    }
}

/* A workspace is opened here, with the rights of who runs us. */
static int pass_repo_directory(struct api_call *c, const struct create_options *o)
{
    bool none = o->access && strcmp(o->access, "none") == 0;
    bool writable = !o->access || strcmp(o->access, "rw") == 0;

    for (size_t i = 0; i < o->inputs.n && !none; i++)
        if (strncmp(o->inputs.p[i], "repo=", 5) == 0)
            return api_call_pass_dir(c, o->inputs.p[i] + 5, writable);
    return 0;
}

static void write_text_object(struct json_writer *w, const char *name,
                              const char *const (*members)[2], size_t n)
{
    bool any = false;

    for (size_t i = 0; i < n; i++)
        any |= members[i][1] != NULL;
    if (!any)
        return;
    json_field_begin_object(w, name);
    for (size_t i = 0; i < n; i++)
        body_text(w, members[i][0], members[i][1]);
    json_end_object(w);
}

static void write_create_request(struct json_writer *w, const struct create_options *o,
                                 const struct json_objects *mounts)
{
    const char *const workspace[][2] = { { "mode", o->mode }, { "access", o->access } };
    const char *const consumer[][2] = { { "actor", o->actor },
                                        { "harness", o->harness },
                                        { "session_id", o->session_id },
                                        { "run_id", o->run_id },
                                        { "job_id", o->job_id } };

    const struct request_settings settings = box_options_settings(&o->box);

    json_begin_object(w);
    body_text(w, "name", o->name);
    body_text(w, "profile", o->profile);
    body_text(w, "snapshot", o->snapshot);
    body_text(w, "image", o->image);
    body_text(w, "scope", o->scope);
    write_text_object(w, "workspace", workspace, COUNT_OF(workspace));
    body_pairs(w, "inputs", &o->inputs);
    body_pairs(w, "env", &o->env);
    request_mounts_put(mounts, w);
    request_settings_put(&settings, w);
    body_text(w, "ttl", o->ttl);
    body_text(w, "checkpoint_every", o->checkpoint);
    body_pairs(w, "labels", &o->labels);
    write_text_object(w, "consumer", consumer, COUNT_OF(consumer));
    network_options_write(&o->network, w);
    json_end_object(w);
}

static void take_first_checkpoint(const struct api_call *c)
{
    char id[64];

    if (str_copy(show_string(c->answer, "sandbox_id"), id, sizeof id))
        checkpoint_take_first(c->verb, c->common, id, "created");
}

static int run_create(struct api_call *c, void *options_, int argc, char **argv)
{
    struct create_options *o = options_;
    struct json_objects mounts;
    struct err e;
    int status;

    if (network_options_read(&o->network, &e) < 0)
        return api_call_failed(c, &e);
    resolve_inputs(&o->inputs);
    status = pass_repo_directory(c, o);
    if (!status)
        status = box_options_hand_over(&o->box, c, &mounts, &c->arena);
    if (status)
        return status;
    c->method = "POST";
    api_call_path(c, "/v1/sandboxes");
    api_call_field(c, "Idempotency-Key", o->idempotency_key);
    api_call_field(c, "Prefer", o->no_wait ? "respond-async" : NULL);
    write_create_request(api_call_json(c), o, &mounts);
    c->doing = o->no_wait ? NULL : "creating a sandbox";
    status = api_call_run(c);
    if (status == 0 && o->checkpoint && !o->no_wait)
        take_first_checkpoint(c);
    return status ? status : answer_record(c, c->answer, &kind_sandbox_changed);
}

const struct verb verb_create = {
    .name = "create",
    .summary = "create a sandbox and wait until it is ready",
    .text = "Without --profile it has profile.sandbox-canary: small, to try things out.\n"
            "As shipped, that ends after 5 minutes without use, with any --ttl, and after\n"
            "15 minutes without --ttl. For one that stays until the time of --ttl, choose\n"
            "--profile base. EXPIRES is when it ends if it is not used.\n"
            "\n"
            "Without a network of its profile's, --allow, --allow-packages and --policy give it\n"
            "one, for what they name and nothing else; 'egress set' changes that while it runs.\n"
            "\n"
            "--input repo=DIR is the workspace: a copy of DIR, which 'sync' and 'destroy' bring\n"
            "back. It is opened here, with your own rights; a daemon on another machine takes\n"
            "none. Other inputs that name a file or directory are sent as absolute paths.\n"
            "\n"
            "--mount shows a directory or file itself, live, not a copy. It is opened here, too,\n"
            "and each later start opens it again with your rights: if it was replaced or closed,\n"
            "'resume' fails and names it. Under root's daemon, your files are inside those of\n"
            "the sandbox's user (--user), and files of other owners have no owner there.\n"
            "\n"
            "  sandboxer create\n"
            "  sandboxer create --name web --profile base --ttl 8h\n"
            "  id=$(sandboxer create -q --profile profile.agent-dev --ttl 2h)\n"
            "  sandboxer create -p profile.build --input repo=./src --label team=web -o json\n"
            "  sandboxer create --allow api.example.com --allow '*.packages.example.org:443'\n"
            "  sandboxer create --policy policy.yaml --allow-packages\n"
            "  sandboxer create --mount ./src:/src --mount ./out:/out:rw --workdir /src\n",
    OPTIONS(options, struct create_options),
    .defaults = &(const struct create_options){ .network = NETWORK_OPTIONS_NONE },
    .run = run_create,
    .flags = VERB_ASKS,
};
