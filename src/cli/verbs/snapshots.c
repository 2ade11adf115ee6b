/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "cli/request.h"
#include "cli/progress.h"
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

const struct verb verb_snapshots_list = {
    .name = "snapshots list",
    .summary = "list snapshots, the newest first",
    .text = "  sandboxer snapshots list\n",
    REQUEST("GET", "/v1/snapshots", .kind = &kind_snapshot, .list = true),
    .flags = VERB_ASKS,
};

const struct verb verb_snapshots_get = {
    .name = "snapshots get",
    .arguments = "SNAPSHOT",
    .summary = "show a snapshot",
    .text = "A snapshot is named by its id, or by the name that it was given.\n"
            "\n"
            "  sandboxer snapshots get before-upgrade\n",
    REQUEST("GET", "/v1/snapshots/%s", .kind = &kind_snapshot),
    .flags = VERB_ASKS,
    .n_arguments = { 1, 1 },
    .complete = COMPLETE_SNAPSHOT,
};

const struct verb verb_snapshots_verify = {
    .name = "snapshots verify",
    .arguments = "SNAPSHOT",
    .summary = "verify that a snapshot's layers are unchanged",
    .text = "Reads and hashes all of its files, and those of its image, and compares the digests\n"
            "with the stored ones. Missing digests are stored.\n"
            "\n"
            "  sandboxer snapshots verify before-upgrade\n",
    REQUEST("POST", "/v1/snapshots/%s/verify", .doing = "verifying", .patient = true,
            .print = request_print_verified),
    .flags = VERB_ASKS,
    .n_arguments = { 1, 1 },
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
    .text = "Sandboxes that were created from it keep running. If several snapshots have the\n"
            "name, nothing is deleted, and their ids are listed.\n"
            "\n"
            "  sandboxer snapshots delete before-upgrade\n",
    .run = run_delete,
    .flags = VERB_ASKS,
    .n_arguments = { 1, 1 },
    .complete = COMPLETE_SNAPSHOT,
};

/* --- export --- */

struct export_options {
    struct common common;
    bool without;
};

static const struct option_spec export_options[] = {
    { "without-image", 0, NULL, "leave out the layers of its image", .kind = OPTION_FLAG,
      .at = offsetof(struct export_options, without) },
};

enum { TARGET_MAX = 4096 };

/* A file of that name is whole, or what it was before. */
struct target {
    const char *path;
    char partial[TARGET_MAX]; /* our own temporary file; empty: not made, or renamed already */
    int fd;
};

/* The one whose partial file goes if a signal ends us. */
static const struct target *unfinished;

static void on_export_signal(int sig)
{
    if (unfinished)
        (void)unlink(unfinished->partial);
    raise(sig); /* as it would be without us, when we return */
}

static void remove_if_ended(const struct target *t)
{
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = on_export_signal, .sa_flags = (int)SA_RESETHAND },
                     was;

    unfinished = t;
    for (size_t i = 0; i < COUNT_OF(ends); i++)
        if (sigaction(ends[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            sigaction(ends[i], &action, NULL);
}

static int target_open(struct target *t, const char *path, struct err *e)
{
    t->path = path;
    t->fd = STDOUT_FILENO;
    if (strcmp(path, "-") == 0)
        return 0;
    if (snprintf(t->partial, sizeof t->partial, "%s.XXXXXX", path) >= (int)sizeof t->partial) {
        t->partial[0] = '\0';
        return err_set(e, ERR_INVALID, "the name is too long");
    }
    remove_if_ended(t);
    t->fd = mkostemp(t->partial, O_CLOEXEC);
    if (t->fd >= 0)
        return 0;
    t->partial[0] = '\0';
    return err_sys(e, "a file beside %s", path);
}

/* The name is on disk, too. */
static int sync_dir_of(const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    char dir[TARGET_MAX] = ".";
    AUTO_CLOSE int fd = -1;

    if (slash) /* with it: of "/file" it is the directory */
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - path + 1), path);
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) < 0 ? err_sys(e, "forcing %s to disk", dir) : 0;
}

static int target_publish(struct target *t, struct err *e)
{
    if (!t->partial[0])
        return 0;
    if (fsync(t->fd) < 0 || rename(t->partial, t->path) < 0)
        return err_sys(e, "%s", t->path);
    unfinished = NULL;
    t->partial[0] = '\0';
    return sync_dir_of(t->path, e);
}

static void target_done(struct target *t)
{
    if (t->partial[0])
        (void)unlink(t->partial);
    unfinished = NULL;
    if (t->fd > STDERR_FILENO)
        close(t->fd);
}

static int receive_snapshot(struct api_call *c, struct target *t)
{
    struct str piece;
    struct err e;
    int status = api_call_open(c);

    while (status == 0 && api_call_next(c, &piece, &status) > 0) {
        progress_moved(piece.n);
        if (write_all(t->fd, piece, &e) < 0)
            status = api_call_failed(c, &e);
    }
    if (status == 0 && target_publish(t, &e) < 0)
        status = api_call_failed(c, &e);
    return status;
}

static int run_snapshots_export(const struct verb *v, int argc, char **argv)
{
    struct export_options o = { 0 };
    AUTO(target_done) struct target t = { .fd = -1 };
    AUTO(api_call_done) struct api_call c;
    struct err e;
    int status;

    api_call_init(&c, v, &o.common, "GET");
    if (!verb_parse(v, &argc, &argv, &o, &status))
        return status;
    if (strcmp(argv[1], "-") == 0 && isatty(STDOUT_FILENO) == 1)
        return verb_misused(v, "'-' writes the file to stdout, which is a terminal");
    if (target_open(&t, argv[1], &e) < 0)
        return api_call_failed(&c, &e);
    api_call_path(&c, "/v1/snapshots/%s/export", argv[0]);
    api_call_query(&c, "without_image", o.without ? "true" : NULL);
    c.doing = "exporting";
    c.patience = 0;
    return receive_snapshot(&c, &t);
}

const struct verb verb_snapshots_export = {
    .name = "snapshots export",
    .arguments = "SNAPSHOT FILE|-",
    .summary = "write a snapshot to a file, to keep it or to move it to another machine",
    .text =
        "The file contains every byte and attribute, compressed with zstd, the snapshot's\n"
        "origin, and the layers of its image. It is whole, or it is not there.\n"
        "\n"
        "  sandboxer snapshots export before-upgrade before-upgrade.snapshot\n"
        "  sandboxer snapshots export before-upgrade - | ssh other sandboxer snapshots import -\n",
    OPTIONS(export_options),
    .run = run_snapshots_export,
    .flags = VERB_REMOTE,
    .n_arguments = { 2, 2 },
    .complete = COMPLETE_SNAPSHOT,
};

/* --- import --- */

struct snapshot_import_options {
    struct common common;
    const char *name;
};

static const struct option_spec import_options[] = {
    { "name", 0, "NAME", "name of the snapshot (default: the name in the file)",
      .kind = OPTION_TEXT, .at = offsetof(struct snapshot_import_options, name), .query = "name" },
};

const struct verb verb_snapshots_import = {
    .name = "snapshots import",
    .arguments = "FILE|-",
    .summary = "import a snapshot from a file of 'snapshots export'",
    .text = "The whole file is checked before the snapshot is created. Layers of an image that\n"
            "is stored here are not stored twice; a file without them needs that image.\n"
            "\n"
            "  sandboxer snapshots import before-upgrade.snapshot\n",
    OPTIONS(import_options),
    REQUEST("POST", "/v1/snapshots/import", .body = BODY_ZSTD,
            .options_size = sizeof(struct snapshot_import_options), .doing = "importing",
            .patient = true, .kind = &kind_snapshot),
    .flags = VERB_ASKS,
    .n_arguments = { 1, 1 },
    .complete = COMPLETE_FILE,
};
