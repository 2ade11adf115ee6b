/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/body.h"
#include "cli/verbs/verbs.h"

struct sync_options {
    struct common common;
    bool force, dry_run, accept_all;
    struct option_list accept;
};

#define AT(member) .at = offsetof(struct sync_options, member)

static const struct option_spec options[] = {
    { "force", 'f', NULL, "overwrite files that were changed here in the meantime",
      .kind = OPTION_FLAG, AT(force) },
    { "dry-run", 'n', NULL, "only show the changes", .kind = OPTION_FLAG, AT(dry_run) },
    { "accept", 'a', "PATH", "apply the change of PATH that was held back; can be repeated",
      .kind = OPTION_LIST, AT(accept) },
    { "accept-all", 0, NULL, "the same for everything that was held back", .kind = OPTION_FLAG,
      AT(accept_all) },
};

static const struct column columns[] = {
    COLUMN("ACTION", "action", .state = true),
    COLUMN("PATH", "path"),
    COLUMN("REASON", "reason", .most = 60),
};
static const struct answer_kind kind = { "changes", "path", columns, COUNT_OF(columns) };

/* Files that were not copied back and need the user's attention. */
static bool left_out(const struct json *answer)
{
    static const char *const actions[] = { "counts.conflict", "counts.sensitive", "counts.refused",
                                           "counts.failed" };
    bool any = false;

    for (size_t i = 0; i < COUNT_OF(actions); i++)
        any |= show_at(answer, actions[i]) != NULL;
    return any;
}

static void explain_held(const struct api_call *c, const char *id)
{
    uint64_t held = answer_number(c, "counts.sensitive");

    if (held && !c->common->quiet)
        cli_report(
            "%llu held back: programs of this machine would run or obey such a file without being "
            "asked, or its deletion may be half of a move to a name that was held back (REASON "
            "says which); review, then: sandboxer sync %s --accept PATH, or --accept-all",
            (unsigned long long)held, id);
}

static int run_sync(const struct verb *v, int argc, char **argv)
{
    struct sync_options o = { 0 };
    AUTO(api_call_done) struct api_call c;
    struct json_writer *w;
    int status;

    api_call_init(&c, v, &o.common, "POST");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    api_call_path(&c, "/v1/sandboxes/%s/sync", argv[0]);
    w = api_call_json(&c);
    json_begin_object(w);
    json_key(w, STR("force"));
    json_put_bool(w, o.force);
    json_key(w, STR("dry_run"));
    json_put_bool(w, o.dry_run);
    body_list(w, "accept", &o.accept);
    body_flag(w, "accept_all", o.accept_all);
    json_end_object(w);
    c.doing = "copying changes back";
    status = api_call_run(&c);
    if (status == 0)
        status = answer_list(&c, c.answer, &kind);
    if (status == 0)
        explain_held(&c, argv[0]);
    return status ? status : left_out(c.answer) ? EXIT_CONFLICT : 0;
}

const struct verb verb_sync = {
    .name = "sync",
    .arguments = "ID",
    .summary = "copy the changes of a mirrored workspace back",
    .text =
        "A file that was changed on both sides is a conflict: nothing is overwritten, unless\n"
        "--force says so. Files that programs of the host run or obey by themselves (git hooks,\n"
        "settings of editors and agents, unknown hidden files, new names at the top of a home,\n"
        "everything in ~/bin and in hidden directories) are held back until they are accepted by\n"
        "name. While the content of some file stays inside, files that were deleted inside are\n"
        "kept, unless their content came back under another name: it may have been a move.\n"
        "Exit status 4 if something was not brought back.\n"
        "\n"
        "  sandboxer sync sbx_4k7 --dry-run\n"
        "  sandboxer sync sbx_4k7\n"
        "  sandboxer sync sbx_4k7 --accept .github/copilot-instructions.md --accept .cargo\n",
    .options = options,
    .n_options = COUNT_OF(options),
    .run = run_sync,
    .flags = VERB_REMOTE | VERB_FORMAT,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
