/* SPDX-License-Identifier: Apache-2.0 */
#include "base/own.h"
#include "cli/answer.h"
#include "cli/body.h"
#include "cli/verbs/verbs.h"

static const struct column columns[] = {
    COLUMN("ID", "snapshot_id"),
    COLUMN("NAME", "name", .most = 32),
    COLUMN("SANDBOX", "sandbox_id"),
    COLUMN("PROFILE", "profile", .most = 32),
    COLUMN("SIZE", "bytes", .show = show_bytes),
    COLUMN("FILES", "entries"),
    COLUMN("PAUSE MS", "pause_ms"),
    COLUMN("IMAGE", "image", .alone = true),
    COLUMN("LAYERS", "layers", .alone = true),
    COLUMN("DIGESTS", "digests", .alone = true, .block = true),
    COLUMN("OWNER", "owner", .alone = true),
    COLUMN("LABELS", "labels", .alone = true),
    COLUMN("CREATED", "created_at", .show = show_age),
    COLUMN("EXPIRES", "expires_at", .show = show_until, .alone = true),
};
const struct answer_kind kind_snapshot = { "snapshots", "snapshot_id", columns, COUNT_OF(columns) };

/* --- snapshot --- */

struct snapshot_options {
    struct common common;
    const char *name;
};

static const struct option_spec snapshot_options[] = {
    { "name", 0, "NAME", "name of the snapshot", .kind = OPTION_TEXT,
      .at = offsetof(struct snapshot_options, name) },
};

static int write_snapshot_name(const struct verb *v, const void *options, char **argv,
                               struct json_writer *w)
{
    const struct snapshot_options *o = options;

    body_text(w, "name", o->name);
    return 0;
}

static int run_snapshot(const struct verb *v, int argc, char **argv)
{
    static struct snapshot_options o;
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/sandboxes/",
                                          .after = "/snapshot",
                                          .options = &o,
                                          .body = write_snapshot_name,
                                          .kind = &kind_snapshot,
                                          .doing = "taking a snapshot" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_snapshot = {
    .name = "snapshot",
    .arguments = "ID",
    .summary = "take a snapshot of a sandbox's files",
    .text = "Stores all files of the sandbox as of one moment: the sandbox is frozen meanwhile, "
            "and the\n"
            "duration is shown. Not included: /run, /dev/shm, memory and processes. 'restore' "
            "creates a\n"
            "sandbox from a snapshot.\n"
            "\n"
            "  sandboxer snapshot sbx_4k7 --name before-upgrade\n",
    .options = snapshot_options,
    .n_options = COUNT_OF(snapshot_options),
    .run = run_snapshot,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};

/* --- snapshots --- */

static int run_snapshots_list(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = {
        .method = "GET", .before = "/v1/snapshots", .kind = &kind_snapshot, .list = true
    };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_snapshots_list = {
    .name = "snapshots list",
    .arguments = "",
    .summary = "list snapshots, the newest first",
    .text = "  sandboxer snapshots list\n",
    .run = run_snapshots_list,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
};

static int run_snapshots_get(const struct verb *v, int argc, char **argv)
{
    static const struct simple simple = { .method = "GET",
                                          .before = "/v1/snapshots/",
                                          .kind = &kind_snapshot };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_snapshots_get = {
    .name = "snapshots get",
    .arguments = "SNAPSHOT",
    .summary = "show a snapshot",
    .text = "A snapshot is named by its id, or by the name that it was given.\n"
            "\n"
            "  sandboxer snapshots get before-upgrade\n",
    .run = run_snapshots_get,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SNAPSHOT,
};

static int run_snapshots_verify(const struct verb *v, int argc, char **argv)
{
    struct common common = { 0 };
    AUTO(api_call_done) struct api_call c;
    int status;

    api_call_init(&c, v, &common, "POST");
    if (!verb_parse(v, &argc, &argv, &common, &status))
        return status;
    api_call_path(&c, "/v1/snapshots/%s/verify", argv[0]);
    return answer_verified(&c, argv[0]);
}

const struct verb verb_snapshots_verify = {
    .name = "snapshots verify",
    .arguments = "SNAPSHOT",
    .summary = "verify that a snapshot's layers are unchanged",
    .text = "Reads and hashes all of its files, and those of its image, and compares the digests "
            "with the\n"
            "stored ones. Missing digests are stored.\n"
            "\n"
            "  sandboxer snapshots verify before-upgrade\n",
    .run = run_snapshots_verify,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SNAPSHOT,
};

/* Looks up the id first, for the message about the deleted snapshot. */
static int run_delete(const struct verb *v, int argc, char **argv)
{
    struct common common = { 0 };
    AUTO(api_call_done) struct api_call found, c;
    struct str id;
    int status;

    api_call_init(&found, v, &common, "GET");
    api_call_init(&c, v, &common, "DELETE");
    if (!verb_parse(v, &argc, &argv, &common, &status))
        return status;
    api_call_path(&found, "/v1/snapshots/%s", argv[0]);
    status = api_call_run(&found);
    if (status)
        return status;
    api_call_path(&c, "/v1/snapshots/%s", argv[0]);
    status = api_call_run(&c);
    if (status)
        return status;
    id = show_string(found.answer, "snapshot_id");
    if (str_eq(id, str_from(argv[0])))
        return answer_done(&c, c.answer, "%s deleted", argv[0]);
    return answer_done(&c, c.answer, "%s (" STR_FMT ") deleted", argv[0], STR_ARG(id));
}

const struct verb verb_snapshots_delete = {
    .name = "snapshots delete",
    .arguments = "SNAPSHOT",
    .summary = "delete a snapshot",
    .text = "Sandboxes that were created from it keep running. If several snapshots have the name, "
            "nothing\n"
            "is deleted, and their ids are listed.\n"
            "\n"
            "  sandboxer snapshots delete before-upgrade\n",
    .run = run_delete,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SNAPSHOT,
};

/* --- restore --- */

struct restore_options {
    struct common common;
    const char *profile, *ttl;
    struct option_list labels;
};

#define AT(member) .at = offsetof(struct restore_options, member)

static const struct option_spec restore_options[] = {
    { "profile", 'p', "PROFILE", "another profile than the snapshot's, on the same system",
      .kind = OPTION_TEXT, AT(profile), .complete = COMPLETE_PROFILE },
    { "ttl", 0, "DURATION", "lifetime: 30m, 2h (default: the profile's)", .kind = OPTION_DURATION,
      AT(ttl) },
    { "label", 'l', "KEY=VALUE", "a label to find it by; can be repeated", .kind = OPTION_PAIRS,
      AT(labels) },
};

static int write_restore_body(const struct verb *v, const void *options, char **argv,
                              struct json_writer *w)
{
    const struct restore_options *o = options;

    body_text(w, "snapshot", argv[0]);
    body_text(w, "profile", o->profile);
    body_text(w, "ttl", o->ttl);
    body_pairs(w, "labels", &o->labels);
    return 0;
}

static int run_restore(const struct verb *v, int argc, char **argv)
{
    static struct restore_options o;
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/sandboxes",
                                          .options = &o,
                                          .body = write_restore_body,
                                          .kind = &kind_sandbox,
                                          .doing = "creating a sandbox" };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_restore = {
    .name = "restore",
    .arguments = "SNAPSHOT",
    .summary = "create a sandbox from a snapshot",
    .text = "The sandbox is a new one, with its own id, hostname and machine-id; the snapshot is "
            "unchanged.\n"
            "\n"
            "  id=$(sandboxer restore -q before-upgrade)\n",
    .options = restore_options,
    .n_options = COUNT_OF(restore_options),
    .run = run_restore,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SNAPSHOT,
};

/* --- fork --- */

struct fork_options {
    struct common common;
    const char *count;
    bool keep_env;
};

static const struct option_spec fork_options[] = {
    { "count", 'n', "N", "number of copies, 1 to 100 (default: 1)", .kind = OPTION_COUNT,
      .least = 1, .most = 100, .at = offsetof(struct fork_options, count) },
    { "keep-env", 0, NULL,
      "also copy the variables that it was created with, including credentials",
      .kind = OPTION_FLAG, .at = offsetof(struct fork_options, keep_env) },
};

static int write_fork_body(const struct verb *v, const void *options, char **argv,
                           struct json_writer *w)
{
    const struct fork_options *o = options;
    uint64_t n = 1;

    if (o->count && !str_to_u64(str_from(o->count), &n))
        return verb_misused(v, "--count: '%s' is not a number", o->count);
    json_key(w, STR("count"));
    json_put_uint(w, n);
    body_flag(w, "keep_env", o->keep_env);
    return 0;
}

static int print_forks(const struct api_call *c, const void *options, const struct json *v)
{
    char pause[ANSWER_PAUSE_MAX];
    int status = answer_list(c, v, &kind_sandbox);

    answer_pause(v, pause);
    return status || !pause[0] ? status : answer_done(c, v, "the sandbox %s", pause);
}

static int run_fork(const struct verb *v, int argc, char **argv)
{
    static struct fork_options o;
    static const struct simple simple = { .method = "POST",
                                          .before = "/v1/sandboxes/",
                                          .after = "/fork",
                                          .options = &o,
                                          .body = write_fork_body,
                                          .kind = &kind_sandbox,
                                          .list = true,
                                          .doing = "copying a sandbox",
                                          .print = print_forks };

    return answer_simple(v, argc, argv, &simple);
}

const struct verb verb_fork = {
    .name = "fork",
    .arguments = "ID",
    .summary = "create copies of a sandbox with its files",
    .text = "Its files are copied once, as of one moment, and the time for which it was frozen is "
            "shown; each\n"
            "copy writes to its own files. Processes are not copied, nor, without --keep-env, the "
            "variables\n"
            "that it was created with. If one copy cannot be made, none is.\n"
            "\n"
            "  sandboxer fork sbx_4k7 -n 8\n",
    .options = fork_options,
    .n_options = COUNT_OF(fork_options),
    .run = run_fork,
    .flags = VERB_REMOTE | VERB_FORMAT | VERB_QUIET,
    .min_arguments = 1,
    .max_arguments = 1,
    .complete = COMPLETE_SANDBOX,
};
