/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "cli/checkpoint.h"
#include "cli/sandbox_pages.h"
#include "cli/show.h"
#include "cli/terminal.h"
#include "cli/verbs/verbs.h"

enum { SANDBOX_ID_MAX = 64 };

struct undo_options {
    struct common common;
    const char *to, *cause;
    bool list, checkpoint, yes;
};

#define AT(member) .at = offsetof(struct undo_options, member)

static const struct option_spec undo_options[] = {
    { "to", 0, "N", "the checkpoint with this number", .kind = OPTION_COUNT, AT(to), .least = 1 },
    { "list", 'l', NULL, "show the checkpoints", AT(list) },
    { "checkpoint", 0, NULL, "take a checkpoint now", AT(checkpoint) },
    { "cause", 0, "TEXT", "its cause, for the list (default: by hand)", AT(cause) },
    { "yes", 'y', NULL, "end running programs without a question", AT(yes) },
};

static const struct column columns[] = {
    COLUMN("N", "checkpoint"),
    COLUMN("TAKEN", "created_at", .show = show_age),
    COLUMN("CAUSE", "cause", .most = 40),
    COLUMN("CHANGED", "changed"),
    COLUMN("SIZE", "bytes", .show = show_bytes),
    COLUMN("AFTER", "parent"),
    COLUMN("CURRENT", "current"),
    COLUMN("SNAPSHOT", "snapshot_id", .alone = true),
};
static const struct answer_kind kind_checkpoint = KIND("checkpoints", "checkpoint", columns);

/* --- the sandbox --- */

static bool is_of_directory(const struct json *row, const char *dir)
{
    return str_eq(show_string(row, "inputs.repo"), str_from(dir));
}

/* The only sandbox, or the only one whose workspace is a copy of this directory. */
static const struct json *find_obvious(const struct json *rows, const char *dir)
{
    const struct json *here = NULL;
    size_t n = 0;

    if (json_end(rows) - json_first(rows) == 1)
        return json_first(rows);
    for (const struct json *row = json_first(rows); row != json_end(rows); row++)
        if (is_of_directory(row, dir)) {
            here = row;
            n++;
        }
    return n == 1 ? here : NULL;
}

static int choose_sandbox(const struct api_call *c, char ret[static SANDBOX_ID_MAX])
{
    static const struct sandbox_filter any;
    AUTO(sandbox_pages_done) struct sandbox_pages p;
    char dir[4096];
    const struct json *one;
    int status = sandbox_pages_fetch(&p, c->verb, c->common, &any);

    if (status)
        return status;
    if (!getcwd(dir, sizeof dir))
        dir[0] = '\0';
    one = find_obvious(&p.list, dir);
    if (one && str_copy(show_string(one, "sandbox_id"), ret, SANDBOX_ID_MAX))
        return 0;
    for (const struct json *row = json_first(&p.list); row != json_end(&p.list); row++)
        cli_report("%.*s %.*s", STR_ARG(show_string(row, "sandbox_id")),
                   STR_ARG(show_string(row, "inputs.repo")));
    return verb_misused(c->verb, json_first(&p.list) == json_end(&p.list)
                                     ? "there is no sandbox"
                                     : "several sandboxes exist: name one of them");
}

/* --- going back --- */

/* A sandbox that runs none is not asked about. */
static int confirm_end_of_programs(const struct api_call *c, const char *id)
{
    AUTO(api_call_done) struct api_call found;
    char question[SANDBOX_ID_MAX + 64];
    int status;

    api_call_init(&found, c->verb, c->common, "GET");
    api_call_path(&found, "/v1/sandboxes/%s/checkpoints", id);
    status = api_call_run(&found);
    if (status || !show_count(found.answer, "programs"))
        return status;
    if (isatty(STDIN_FILENO) != 1)
        return verb_misused(c->verb, "programs run in %s and would be ended; confirm with --yes",
                            id);
    snprintf(question, sizeof question, "Programs run in %s. End them?", id);
    return terminal_confirm(question) ? 0 : EXIT_REPORTED;
}

static int print_undone(const struct api_call *c, const char *id)
{
    AUTO(buf_done) struct buf age = BUF_INIT(64);
    long long kept = (long long)show_int(c->answer, "kept", 0);
    int status;

    show_age(show_at(c->answer, "created_at"), clock_wall(), &age);
    status = answer_done(c, c->answer, "%s is back at checkpoint %lld (%.*s, " STR_FMT ")", id,
                         (long long)show_int(c->answer, "checkpoint", 0),
                         STR_ARG(show_string(c->answer, "cause")), STR_ARG(buf_str(&age)));
    if (status == 0 && !c->common->quiet && common_format(c->common) == FORMAT_TEXT)
        cli_report("the files before it are checkpoint %lld: sandboxer undo %s --to %lld", kept, id,
                   kept);
    return status;
}

static int request_undo(const struct api_call *like, const char *to, const char *id)
{
    AUTO(api_call_done) struct api_call c;
    struct json_writer *w;
    int status;

    api_call_init(&c, like->verb, like->common, "POST");
    api_call_path(&c, "/v1/sandboxes/%s/undo", id);
    w = api_call_json(&c);
    json_begin_object(w);
    if (to)
        json_field_written(w, "to", str_from(to));
    json_end_object(w);
    c.doing = "going back to a checkpoint";
    status = api_call_run(&c);
    return status ? status : print_undone(&c, id);
}

static int go_back(const struct api_call *like, const struct undo_options *o, const char *id)
{
    int status = o->yes ? 0 : confirm_end_of_programs(like, id);

    return status ? status : request_undo(like, o->to, id);
}

/* --- the list, and a new one --- */

static int list_checkpoints(const struct api_call *like, const char *id)
{
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, like->verb, like->common, "GET");
    api_call_path(&c, "/v1/sandboxes/%s/checkpoints", id);
    status = api_call_run(&c);
    return status ? status : answer_list(&c, c.answer, &kind_checkpoint);
}

static int take_one(const struct api_call *like, const struct undo_options *o, const char *id)
{
    AUTO(api_call_done) struct api_call c;
    long long n;
    int status;

    checkpoint_init(&c, like->verb, like->common, id, o->cause ? o->cause : "by hand");
    status = api_call_run(&c);
    if (status)
        return status;
    n = (long long)show_int(c.answer, "checkpoint", 0);
    if (show_true(c.answer, "taken"))
        return answer_done(&c, c.answer, "%s: checkpoint %lld", id, n);
    return answer_done(&c, c.answer, "%s: nothing has changed since checkpoint %lld", id, n);
}

static int run_undo(struct api_call *c, void *options, int argc, char **argv)
{
    const struct undo_options *o = options;
    char id[SANDBOX_ID_MAX];
    int status;

    if ((o->list && o->checkpoint) || ((o->list || o->checkpoint) && o->to))
        return verb_misused(c->verb, "--list, --checkpoint and --to exclude each other");
    if (o->cause && !o->checkpoint)
        return verb_misused(c->verb, "--cause needs --checkpoint");
    if (argc && !str_copy(str_from(argv[0]), id, sizeof id))
        return verb_misused(c->verb, "argument 1 is longer than the id or name of a sandbox");
    status = argc ? 0 : choose_sandbox(c, id);
    if (status)
        return status;
    return o->list         ? list_checkpoints(c, id)
           : o->checkpoint ? take_one(c, o, id)
                           : go_back(c, o, id);
}

const struct verb verb_undo = {
    .name = "undo",
    ARGUMENTS("[ID]", 0, 1, COMPLETE_SANDBOX),
    .summary = "take the files of a sandbox back to a checkpoint",
    .text =
        "Goes back to the newest checkpoint of the sandbox's past whose files are others than\n"
        "it has; again, one further. The files that it has are stored as a checkpoint before,\n"
        "so that --to takes them back. Running programs end; a sandbox that ran is resumed.\n"
        "Files of this machine are not touched: with a workspace, sync shows what the undo\n"
        "changed against them, and conflicts as ever.\n"
        "\n"
        "A sandbox keeps its newest 50 checkpoints, fewer if its owner's budget for snapshots\n"
        "is used up. Without ID: the only sandbox, or the one whose workspace is a copy of the\n"
        "current directory.\n"
        "\n"
        "  sandboxer undo sbx_4k7\n"
        "  sandboxer undo --list sbx_4k7\n"
        "  sandboxer undo sbx_4k7 --to 3\n"
        "  sandboxer undo --checkpoint sbx_4k7 --cause 'before the upgrade'\n",
    OPTIONS(undo_options, struct undo_options),
    .run = run_undo,
    .flags = VERB_ASKS,
};
