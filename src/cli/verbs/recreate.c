/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/unsynced.h"
#include "cli/verbs/verbs.h"

static int pass_same_mounts(struct api_call *lookup, struct api_call *c)
{
    const struct json *mounts = show_at(lookup->answer, "mounts");
    int status = 0;

    if (!mounts || mounts->type != JSON_ARRAY)
        return 0;
    for (const struct json *m = json_first(mounts); m != json_end(mounts) && !status; m++) {
        const char *source = arena_dup(&lookup->arena, show_string(m, "source"));
        const char *target = arena_dup(&lookup->arena, show_string(m, "target"));

        if (!source || !target)
            return verb_failed(c->verb, "the mounts of the sandbox need too much memory");
        status =
            api_call_pass_mount(c, source, target, str_eq(show_string(m, "access"), STR("rw")));
    }
    return status;
}

/* The new one has the workspace and the mounts of the old one, if we may still open them. */
static int pass_same_files(struct api_call *lookup, struct api_call *c, const char *id)
{
    struct str repo, access;
    const char *path;
    int status;

    api_call_path(lookup, "/v1/sandboxes/%s", id);
    status = api_call_run(lookup);
    if (status)
        return status;
    repo = show_string(lookup->answer, "inputs.repo");
    access = show_string(lookup->answer, "workspace.access");
    path = repo.n && !str_eq(access, STR("none")) ? arena_dup(&lookup->arena, repo) : NULL;
    status = path ? api_call_pass_dir(c, path, !str_eq(access, STR("ro"))) : 0;
    return status ? status : pass_same_mounts(lookup, c);
}

struct recreate_options {
    struct common common;
    const char *name;
};

static const struct option_spec recreate_options[] = {
    { "name", 0, "NAME", "another name than that of the old one",
      .at = offsetof(struct recreate_options, name) },
};

static int run_recreate(struct api_call *lookup, void *options, int argc, char **argv)
{
    const struct recreate_options *o = options;
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, lookup->verb, lookup->common, "POST");
    status = pass_same_files(lookup, &c, argv[0]);
    if (status)
        return status;
    api_call_path(&c, "/v1/sandboxes/%s/recreate", argv[0]);
    api_call_query(&c, "sync", "yes");
    api_call_query(&c, "unsynced", "refuse");
    api_call_query(&c, "name", o->name);
    c.doing = "creating the sandbox anew";
    status = api_call_run(&c);
    if (status)
        unsynced_explain(&c, argv[0]);
    return status ? status : answer_record(&c, c.answer, &kind_sandbox_changed);
}

const struct verb verb_recreate = {
    .name = "recreate",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "destroy a sandbox and create another one from the same request",
    .text = "The new one has a new id and the same name. Its workspace and its mounts are opened "
            "anew, with your\n"
            "own rights. As with 'destroy', changes that cannot be brought back are listed (exit\n"
            "status 4), and everything stays as it is.\n"
            "\n"
            "  id=$(sandboxer recreate -q sbx_4k7)\n",
    OPTIONS(recreate_options, struct recreate_options),
    .run = run_recreate,
    .flags = VERB_ASKS,
};
