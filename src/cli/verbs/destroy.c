/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/unsynced.h"
#include "cli/verbs/verbs.h"

struct destroy_options {
    struct common common;
    bool no_sync, force_sync, keep, discard;
};

#define AT(member) .at = offsetof(struct destroy_options, member)

static const struct option_spec options[] = {
    { "no-sync", 0, NULL, "do not copy changes of a mirrored workspace back", AT(no_sync) },
    { "force-sync", 0, NULL, "overwrite files that were changed here in the meantime",
      AT(force_sync) },
    { "keep", 0, NULL, "store changes that cannot be brought back as a snapshot", AT(keep) },
    { "discard", 0, NULL, "lose changes that cannot be brought back", AT(discard) },
};

/* The changes that were made here, then the sandbox, then where the others are. */
static int print_destroyed(const struct api_call *c, const char *id)
{
    struct str kept = show_string(show_at(c->answer, "kept"), "snapshot_id");
    int status = unsynced_list(c, show_at(c->answer, "synced"));

    if (status)
        return status;
    status = answer_done(c, c->answer, "%s destroyed", id);
    if (kept.n && !c->common->quiet)
        cli_report("%.*s; they are in the snapshot %.*s, for as long as retention.unsynced says: "
                   "sandboxer create --snapshot %.*s",
                   STR_ARG(show_string(show_at(c->answer, "kept"), "reason")), STR_ARG(kept),
                   STR_ARG(kept));
    return status;
}

static int destroy_one_sandbox(const struct api_call *like, const struct destroy_options *o,
                               const char *id)
{
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, like->verb, like->common, "DELETE");
    api_call_path(&c, "/v1/sandboxes/%s", id);
    api_call_query(&c, "sync", o->no_sync ? "no" : o->force_sync ? "force" : NULL);
    api_call_query(&c, "unsynced", o->discard ? "discard" : o->keep ? "keep" : "refuse");
    c.doing = "destroying a sandbox";
    status = api_call_run(&c);
    if (status)
        unsynced_explain(&c, id);
    return status ? status : print_destroyed(&c, id);
}

static int run_destroy(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct destroy_options *o = options_;
    int first_failure = 0;

    if (o->no_sync && o->force_sync)
        return verb_misused(c->verb, "--no-sync and --force-sync exclude each other");
    if (o->keep && o->discard)
        return verb_misused(c->verb, "--keep and --discard exclude each other");
    for (int i = 0; i < argc; i++) {
        int status = destroy_one_sandbox(c, o, argv[i]);

        if (!first_failure)
            first_failure = status;
    }
    return first_failure;
}

const struct verb verb_destroy = {
    .name = "destroy",
    ARGUMENTS("ID…", 1, ARGUMENTS_ANY, COMPLETE_SANDBOX),
    .summary = "destroy sandboxes in any state",
    .text = "Changes in a mirrored workspace are brought back first, and listed. If some cannot\n"
            "be (changed on both sides, held back, refused), the sandbox is not destroyed: they\n"
            "are listed, with the ways out, and the exit status is 4. --keep stores them as a\n"
            "snapshot of the sandbox instead, which is deleted after a week\n"
            "(retention.unsynced); if there is no room for it, the sandbox stays paused.\n"
            "--discard loses them. Destroying a sandbox again is no error. With several ids all\n"
            "are tried; the exit status is that of the first failure.\n"
            "\n"
            "  sandboxer destroy sbx_4k7\n"
            "  sandboxer destroy --keep sbx_4k7\n"
            "  sandboxer destroy --no-sync $(sandboxer list -q --label team=web)\n",
    OPTIONS(options, struct destroy_options),
    .run = run_destroy,
    .flags = VERB_ASKS,
};
