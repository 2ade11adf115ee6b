/* SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/own.h"
#include "cli/review.h"
#include "cli/verbs/verbs.h"

struct sync_options {
    struct common common;
    bool force, dry_run, accept_all, interactive;
    struct option_list accept;
};

#define AT(member) .at = offsetof(struct sync_options, member)

static const struct option_spec options[] = {
    { "force", 'f', NULL, "overwrite files that were changed here in the meantime", AT(force),
      .member = "force" },
    { "dry-run", 'n', NULL, "only show the changes", AT(dry_run), .member = "dry_run" },
    { "accept", 'a', "PATH", "apply the change of PATH that was held back; can be repeated",
      .kind = OPTION_LIST, AT(accept), .member = "accept" },
    { "accept-all", 0, NULL, "the same for everything that was held back", AT(accept_all),
      .member = "accept_all" },
    { "interactive", 'i', NULL, "ask about each change on the terminal", AT(interactive) },
};

/* EXIT_CONFLICT if files were not copied back and need the user's attention. */
static int finish_sync(const struct api_call *c, char **argv)
{
    static const char *const actions[] = { "counts.conflict", "counts.sensitive", "counts.refused",
                                           "counts.failed" };
    unsigned long long held = show_count(c->answer, "counts.sensitive");

    if (held && !c->common->quiet)
        cli_report(
            "%llu held back: programs of this machine would run or obey such a file without being "
            "asked, or its deletion may be half of a move to a name that was held back (REASON "
            "says which); review, then: sandboxer sync %s --accept PATH, or --accept-all",
            held, argv[0]);
    for (size_t i = 0; i < COUNT_OF(actions); i++)
        if (show_at(c->answer, actions[i]))
            return EXIT_CONFLICT;
    return 0;
}

static int sync_interactively(const struct api_call *c, const struct sync_options *o,
                              const char *sandbox)
{
    const struct review r = { c->verb, c->common, sandbox };
    unsigned long long left;
    int status;

    if (o->force || o->dry_run || o->accept_all || o->accept.n ||
        common_format(c->common) != FORMAT_TEXT)
        return verb_misused(c->verb, "--interactive excludes --force, --dry-run, --accept, "
                                     "--accept-all and -o");
    if (isatty(STDIN_FILENO) != 1)
        return verb_misused(c->verb,
                            "--interactive asks on a terminal, and stdin is not one; "
                            "--dry-run lists the changes, --accept PATH selects held ones");
    status = review_interactively(&r, &left);
    if (status == 0 && left)
        cli_report("%llu change%s left in the sandbox", left, left == 1 ? "" : "s");
    return status;
}

/* The whole of it, as one request. */
static const struct verb sync_at_once = {
    .name = "sync",
    OPTIONS(options, struct sync_options),
    REQUEST_AS(VERB_REMOTE | VERB_FORMAT, "POST", "/v1/sandboxes/%s/sync", .body = BODY_JSON,
               .doing = "copying changes back", .kind = &kind_workspace_change, .list = true,
               .finish = finish_sync),
};

static int run_sync(struct api_call *c, void *options_, int argc, char **argv)
{
    const struct sync_options *o = options_;

    if (o->interactive)
        return sync_interactively(c, o, argv[0]);
    c->verb = &sync_at_once;
    return request_run(c, options_, argc, argv);
}

const struct verb verb_sync = {
    .name = "sync",
    ARGUMENTS("ID", 1, 1, COMPLETE_SANDBOX),
    .summary = "copy the changes of a mirrored workspace back",
    .text = "A file that was changed on both sides is a conflict: nothing is overwritten, unless\n"
            "--force says so. Files that programs of the host run or obey by themselves (git\n"
            "hooks, settings of editors and agents, unknown hidden files, new names at the top\n"
            "of a home, everything in ~/bin and in hidden directories) are held back until they\n"
            "are accepted by name. While the content of some file stays inside, files that were\n"
            "deleted inside are kept, unless their content came back under another name: it may\n"
            "have been a move. Exit status 4 if something was not brought back.\n"
            "\n"
            "--interactive asks about each change: y brings it back, n leaves it inside, d shows\n"
            "the differences, a brings back the rest that is neither in conflict nor held back, q\n"
            "ends the questions. A conflict is shown with its reason, and y overwrites the file\n"
            "here.\n"
            "\n"
            "  sandboxer sync sbx_4k7 --dry-run\n"
            "  sandboxer sync sbx_4k7\n"
            "  sandboxer sync --interactive sbx_4k7\n"
            "  sandboxer sync sbx_4k7 --accept .github/copilot-instructions.md --accept .cargo\n",
    OPTIONS(options, struct sync_options),
    .run = run_sync,
    .flags = VERB_REMOTE | VERB_FORMAT,
};
