/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/download.h"
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
const struct answer_kind kind_snapshot = KIND("snapshots", "snapshot_id", columns);

const struct verb verb_snapshots_list = {
    .name = "snapshots list",
    .aliases = "snapshots ls",
    .summary = "list snapshots, the newest first",
    .text = "  sandboxer snapshots list\n",
    REQUEST("GET", "/v1/snapshots", .kind = &kind_snapshot, .list = true),
};

const struct verb verb_snapshots_get = {
    .name = "snapshots get",
    ARGUMENTS("SNAPSHOT", 1, 1, COMPLETE_SNAPSHOT),
    .summary = "show a snapshot",
    .text = "A snapshot is named by its id, or by the name that it was given.\n"
            "\n"
            "  sandboxer snapshots get before-upgrade\n",
    REQUEST("GET", "/v1/snapshots/%s", .kind = &kind_snapshot),
};

const struct verb verb_snapshots_verify = {
    .name = "snapshots verify",
    ARGUMENTS("SNAPSHOT", 1, 1, COMPLETE_SNAPSHOT),
    .summary = "verify that a snapshot's layers are unchanged",
    .text = "Reads and hashes all of its files, and those of its image, and compares the digests\n"
            "with the stored ones. Missing digests are stored.\n"
            "\n"
            "  sandboxer snapshots verify before-upgrade\n",
    REQUEST("POST", "/v1/snapshots/%s/verify", .doing = "verifying",
            .print = request_print_verified),
};

/* Looks up the id first, for the message about the deleted snapshot. */
static int run_delete(struct api_call *found, void *options, int argc, char **argv)
{
    AUTO(api_call_done) struct api_call c;
    struct str id;
    int status;

    api_call_init(&c, found->verb, found->common, "DELETE");
    api_call_path(found, "/v1/snapshots/%s", argv[0]);
    api_call_path(&c, "/v1/snapshots/%s", argv[0]);
    status = api_call_run(found);
    if (status == 0)
        status = api_call_run(&c);
    if (status)
        return status;
    id = show_string(found->answer, "snapshot_id");
    if (str_eq(id, str_from(argv[0])))
        return answer_done(&c, c.answer, "%s deleted", argv[0]);
    return answer_done(&c, c.answer, "%s (" STR_FMT ") deleted", argv[0], STR_ARG(id));
}

const struct verb verb_snapshots_delete = {
    .name = "snapshots delete",
    .aliases = "snapshots rm",
    ARGUMENTS("SNAPSHOT", 1, 1, COMPLETE_SNAPSHOT),
    .summary = "delete a snapshot",
    .text = "Sandboxes that were created from it keep running. If several snapshots have the\n"
            "name, nothing is deleted, and their ids are listed.\n"
            "\n"
            "  sandboxer snapshots delete before-upgrade\n",
    .run = run_delete,
    .flags = VERB_ASKS,
};

/* --- export --- */

struct export_options {
    struct common common;
    bool without;
};

static const struct option_spec export_options[] = {
    { "without-image", 0, NULL, "leave out the layers of its image",
      .at = offsetof(struct export_options, without) },
};

static int run_snapshots_export(struct api_call *c, void *options, int argc, char **argv)
{
    const struct export_options *o = options;

    if (strcmp(argv[1], "-") == 0 && isatty(STDOUT_FILENO) == 1)
        return verb_misused(c->verb, "'-' writes the file to stdout, which is a terminal");
    api_call_path(c, "/v1/snapshots/%s/export", argv[0]);
    api_call_query(c, "without_image", o->without ? "true" : NULL);
    c->doing = "exporting";
    return download(c, argv[1]);
}

const struct verb verb_snapshots_export = {
    .name = "snapshots export",
    ARGUMENTS("SNAPSHOT FILE|-", 2, 2, COMPLETE_SNAPSHOT),
    .summary = "write a snapshot to a file, to keep it or to move it to another machine",
    .text =
        "The file contains every byte and attribute, compressed with zstd, the snapshot's\n"
        "origin, and the layers of its image. It is whole, or it is not there.\n"
        "\n"
        "  sandboxer snapshots export before-upgrade before-upgrade.snapshot\n"
        "  sandboxer snapshots export before-upgrade - | ssh other sandboxer snapshots import -\n",
    OPTIONS(export_options, struct export_options),
    .run = run_snapshots_export,
    .flags = VERB_REMOTE,
};

/* --- import --- */

static const struct option_spec import_options[] = {
    { "name", 0, "NAME", "name of the snapshot (default: the name in the file)",
      .at = offsetof(struct one_option, text), .query = "name" },
};

const struct verb verb_snapshots_import = {
    .name = "snapshots import",
    ARGUMENTS("FILE|-", 1, 1, COMPLETE_FILE),
    .summary = "import a snapshot from a file of 'snapshots export'",
    .text = "The whole file is checked before the snapshot is created. Layers of an image that\n"
            "is stored here are not stored twice; a file without them needs that image.\n"
            "\n"
            "  sandboxer snapshots import before-upgrade.snapshot\n",
    OPTIONS(import_options, struct one_option),
    REQUEST("POST", "/v1/snapshots/import", .body = BODY_ZSTD, .doing = "importing",
            .kind = &kind_snapshot),
};
